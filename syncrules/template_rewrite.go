// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"slices"
	"strconv"
	"text/template/parse"
)

// The functions that rewriter inserts calls of. Templates cannot call them: the parser does not know their names.
const (
	callOut   = "_out"
	callRange = "_range"
	callSpend = "_spend"
	callStep  = "_step"
)

// reading is which of its data a template may read.
type reading struct{ readsContent, readsClusters bool }

func (r reading) or(o reading) reading {
	return reading{r.readsContent || o.readsContent, r.readsClusters || o.readsClusters}
}

// rewriter changes a parsed template so that its execution spends from a meter. text/template cannot stop an execution, or
// limit it, so the tree itself is changed:
//
//	list of nodes                → {{_step N}} first, N being what the list costs; in templates and in loops
//	{{ pipe }}                   → {{ pipe | _out "pipe" }}, which spends what is printed, and refuses nothing
//	{{ range pipe }}             → {{ range pipe | _range }}, which spends the number of items
//	eq a b; a | eq b; index c k  → eq (_spend a) (_spend b); a | _spend | eq b; index c (_spend k)
//
// All other functions spend by themselves: see function. It also collects which functions the template calls, and which
// data it reads.
type rewriter struct {
	used map[string]bool
	reading
	// nodes counts what is evaluated each time that the innermost loop or template runs.
	nodes int64
	// otherDot says that the dot is not the data that the template was executed on, as inside with and range.
	otherDot bool
	// main says that $ is the data. In other templates it is the argument of the call.
	main bool
	// calls says that a template is called.
	calls bool
}

func (w *rewriter) template(root *parse.ListNode, main bool) {
	w.main = main
	w.body(root, !main)
}

// body rewrites a list that may run many times. The main template, too, if it calls any: it may call itself.
func (w *rewriter) body(list *parse.ListNode, called bool) {
	outer := w.nodes
	w.nodes = 1
	w.list(list)
	base := int64(costStep)
	if called || w.calls {
		base = costTemplate
	}
	step := command(callStep, list.Pos, &parse.NumberNode{
		NodeType: parse.NodeNumber, Pos: list.Pos, IsInt: true, Int64: base + w.nodes*costStep,
		Text: strconv.FormatInt(base+w.nodes*costStep, 10),
	})
	action := &parse.ActionNode{NodeType: parse.NodeAction, Pos: list.Pos, Pipe: pipe(list.Pos, step)}
	list.Nodes = slices.Insert(list.Nodes, 0, parse.Node(action))
	w.nodes = outer
}

func (w *rewriter) list(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		w.nodes++
		switch n := n.(type) {
		case *parse.ActionNode:
			shown := &parse.StringNode{NodeType: parse.NodeString, Pos: n.Pos, Text: shorten(n.String())}
			shown.Quoted = strconv.Quote(shown.Text)
			w.pipe(n.Pipe)
			if len(n.Pipe.Decl) == 0 {
				n.Pipe.Cmds = append(n.Pipe.Cmds, command(callOut, n.Pos, shown))
			}
		case *parse.IfNode:
			w.pipe(n.Pipe)
			w.list(n.List)
			w.list(n.ElseList)
		case *parse.WithNode:
			w.pipe(n.Pipe)
			w.withOtherDot(func() { w.list(n.List) })
			w.list(n.ElseList)
		case *parse.RangeNode:
			w.pipe(n.Pipe)
			n.Pipe.Cmds = append(n.Pipe.Cmds, command(callRange, n.Pos))
			w.withOtherDot(func() { w.body(n.List, false) })
			w.list(n.ElseList)
		case *parse.TemplateNode:
			w.calls = true
			if n.Pipe != nil {
				w.pipe(n.Pipe)
			}
		}
	}
}

// withOtherDot rewrites a part where the dot is not the data.
func (w *rewriter) withOtherDot(do func()) {
	outer := w.otherDot
	w.otherDot = true
	do()
	w.otherDot = outer
}

func (w *rewriter) pipe(p *parse.PipeNode) {
	cmds := make([]*parse.CommandNode, 0, len(p.Cmds))
	for i, cmd := range p.Cmds {
		w.nodes++
		var name string
		if ident, ok := cmd.Args[0].(*parse.IdentifierNode); ok {
			name = ident.Ident
			w.used[name] = true
		}
		for _, arg := range cmd.Args {
			w.arg(arg)
		}
		from := costly(name)
		if i > 0 && from > 0 {
			cmds = append(cmds, command(callSpend, cmd.Pos))
		}
		for j := range cmd.Args {
			if from > 0 && j >= from {
				cmd.Args[j] = metered(cmd.Args[j])
			}
		}
		cmds = append(cmds, cmd)
	}
	p.Cmds = cmds
}

// costly returns the first argument, counted from 1, whose size is the cost of a function of text/template; 0 for none.
// Other functions could not replace these, since their package compares values in ways that it does not export.
func costly(name string) int {
	switch name {
	case "eq", "ne", "lt", "le", "gt", "ge":
		return 1
	case "index":
		return 2
	}
	return 0
}

// metered wraps an argument in a call that spends its size. Literals are left: their type depends on where they are.
func metered(arg parse.Node) parse.Node {
	switch arg.(type) {
	case *parse.BoolNode, *parse.NumberNode, *parse.StringNode, *parse.NilNode:
		return arg
	}
	return pipe(arg.Position(), command(callSpend, arg.Position(), arg))
}

func (w *rewriter) arg(arg parse.Node) {
	w.nodes++
	switch n := arg.(type) {
	case *parse.FieldNode:
		w.nodes += int64(len(n.Ident))
		if !w.otherDot {
			w.field(n.Ident)
		}
	case *parse.VariableNode:
		w.nodes += int64(len(n.Ident))
		if n.Ident[0] == "$" {
			w.field(n.Ident[1:])
		}
	case *parse.DotNode:
		if !w.otherDot {
			w.field(nil)
		}
	case *parse.ChainNode:
		w.nodes += int64(len(n.Field))
		w.arg(n.Node)
	case *parse.PipeNode:
		w.pipe(n)
	case *parse.IdentifierNode:
		w.used[n.Ident] = true
	}
}

// field records what a chain of fields reads of the data.
func (w *rewriter) field(fields []string) {
	switch {
	case len(fields) == 0, !w.main:
		w.readsContent, w.readsClusters = true, true
	case fields[0] == "Cluster", fields[0] == "LocalCluster":
		w.readsClusters = true
	case fields[0] == "Object":
		w.readsContent = w.readsContent || trimmedAway(fields[1:])
	}
}

func command(name string, pos parse.Pos, args ...parse.Node) *parse.CommandNode {
	ident := parse.NewIdentifier(name).SetPos(pos)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: append([]parse.Node{ident}, args...)}
}

func pipe(pos parse.Pos, cmd *parse.CommandNode) *parse.PipeNode {
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{cmd}}
}

// shorten limits how much of a template an error shows.
func shorten(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
