// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// mutant is a line of a file and what it becomes.
type mutant struct{ name, file, line, becomes string }

var mutants = []mutant{
	{
		"merge: an older entry replaces a newer one", "replica/state.go",
		"if held != nil && !r.supersedes(held) {\n\t\tif r.hash", "if held != nil && r.Sequence == held.Sequence {\n\t\tif r.hash",
	},
	{
		"merge: of a clone's two entries the last one wins", "replica/entry.go",
		"bytes.Compare(o.hash[:], r.hash[:])) > 0", "bytes.Compare(o.hash[:], nil)) > 0",
	},
	{
		"merge: the older epoch is in force", "replica/state.go",
		"for _, l := range slices.Backward(o.layers) {\n\t\tif r := l.records[key]", "for _, l := range o.layers {\n\t\tif r := l.records[key]",
	},
	{
		"frontier: one number is skipped", "replica/layer.go",
		"if n > l.frontier+1 {", "if n > l.frontier+2 {",
	},
	{
		"frontier: a claim that is not met moves it", "replica/layer.go",
		"l.head.Sequence >= l.highest && l.head.Set == sum", "l.head.Sequence >= l.highest",
	},
	{
		"completeness: the mark alone is proof", "replica/layer.go",
		"return l.met && l.head != nil && l.head.Complete && l.proven >= l.head.Announced", "return l.head != nil && l.head.Complete",
	},
	{
		"completeness: what was proven before the mark is enough", "replica/layer.go",
		"l.head.Complete && l.proven >= l.head.Announced", "l.head.Complete",
	},
	{
		"absence: claimed across a gap", "replica/state.go",
		"&& !slices.ContainsFunc(o.layers, (*layer).behind)", "",
	},
	{
		"absence: claimed of what was let go", "replica/state.go",
		"o.completed > 0 && o.forgotten < o.completed &&", "o.completed > 0 &&",
	},
	{
		"withdrawal: forgotten with its epoch", "replica/state.go",
		"for _, r := range inOrder(l.records) {\n\t\t\to.keep(r)", "for _, r := range inOrder(l.records) {\n\t\t\t_ = r",
	},
	{
		"withdrawal: not taken once its epoch is over", "replica/state.go",
		"held == nil && r.Status != Withdrawn,", "held == nil,",
	},
	{
		"withdrawal: never ends", "replica/state.go",
		"if r.Status != Withdrawn {\n\t\to.release(r.Key)", "if r.Status != Withdrawn {",
	},
	{
		"signature: not checked of a pinned origin", "replica/replica.go",
		"if key, ok := r.keyring.Key(origin); ok {\n\t\treturn m.verify(key)", "if _, ok := r.keyring.Key(origin); ok {\n\t\treturn nil",
	},
	{
		"signature: not checked of an introduction", "replica/replica.go",
		"if err := m.verify(key); err != nil {\n\t\treturn err", "if err := m.verify(key); false {\n\t\treturn err",
	},
	{
		"signature: anybody introduces", "replica/replica.go",
		"if introducer == \"\" || m.entry == nil ||", "if m.entry == nil ||",
	},
	{
		"epoch: an own entry above ours is no sign", "replica/own.go",
		"a.seen = max(a.seen, epoch)", "",
	},
	{
		"epoch: withdrawn objects are not announced again", "replica/own.go",
		"if old.records[key] == nil {\n\t\t\tagain = append(again, r)", "if old.records[key] == nil {\n\t\t\t_ = r",
	},
	{
		"epoch: an entry of one that is over is taken", "replica/state.go",
		"if r.Epoch < o.completed {\n\t\treturn o.mergeOld(r), nil", "if false {\n\t\treturn o.mergeOld(r), nil",
	},
	{
		"publishing: a deletion is not told", "replica/own.go",
		"case held == nil && status == Deleted,", "case status == Deleted,",
	},
	{
		"disk: own entries are told before they are durable", "replica/log.go",
		"note))\n\t}\n\treturn nil\n}", "note))\n\t}\n\treturn msgs\n}",
	},
	{
		"delta: an old withdrawal is left out", "replica/delta.go",
		"if r.Status == Withdrawn && !od.full {", "if false {",
	},
	{
		"delta: what is beyond the first gap is left out", "replica/delta.go",
		"dl == nil || r.Sequence > dl.frontier {\n\t\t\tmissing", "dl == nil || r.Sequence > dl.highest {\n\t\t\tmissing",
	},
	{
		"removal: what the key published stays", "replica/removals.go",
		"\t\t\ts.forget(id)\n", "",
	},
	{
		"removal: anybody's gossiped one counts", "replica/removals.go",
		"if introducer == \"\" && (!ok || !author.Equal(rec.ByKey)) {", "if author == nil && false {",
	},
	{
		"removal: the signature is not checked", "replica/removals.go",
		"if err := rec.verify(); err != nil {", "if err := rec.verify(); false {",
	},
	{
		"removal: the key stays pinned", "replica/removals.go",
		"r.keyring.Remove(rec.PublicKey) //", "//",
	},
	{
		"forwarding: what is new is not passed on", "replica/state.go",
		"out := outcome{fresh: true}\n\tif o.effective(r.Key) == r", "out := outcome{}\n\tif o.effective(r.Key) == r",
	},
	{
		"forwarding: it goes to those that we chose only", "mesh/broadcast.go",
		"peers := slices.DeleteFunc(b.neighbours(),", "peers := slices.DeleteFunc(slices.Clone(b.choices()),",
	},
	{
		"forwarding: nothing is spread", "mesh/broadcast.go",
		"if len(msgs) == 0 || len(peers) == 0 {", "if true {",
	},
}
