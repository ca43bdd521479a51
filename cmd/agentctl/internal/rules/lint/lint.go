// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint is the command rules lint: it checks the rules in files, without any cluster. rules explain reads its files
// with it, too.
package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/documents"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "lint",
		Usage:     "check the rules in files, without any cluster",
		ArgsUsage: "FILE|FOLDER|- ...",
		Description: `Reads YAML or JSON, several documents to a file, folders with all files below them, and - for
standard input. Each ResourceSyncRule is compiled as an agent would; other kinds are ignored with a note.
All errors are shown at once:

  rules.yaml:12: error: spec.rules[0].match[0]: Required value: must select by something

Warnings are about what is right but perhaps not meant. For each rule the rights are printed that it
needs beyond what the chart grants, as ClusterRoles to apply; for Secrets as a Role in each namespace
that it names, and none where a cluster's private key may be.

Exit code: 0 no error (there may be warnings), 1 errors, or a file that cannot be read.`,
		Flags: ConsentFlags(),
		Action: func(c *urfave.Context) error {
			policy, err := ConsentOf(c)
			if err != nil {
				return err
			}
			return g.Run(c, &Options{Files: c.Args().Slice(), Consent: policy, Stdin: c.App.Reader})
		},
	}
}

// Options are what is checked.
type Options struct {
	Files   []string       // files, folders, and - for Stdin
	Consent consent.Policy // what a cluster refuses unless told otherwise
	Stdin   io.Reader
}

// Validate checks what can be checked without reading a file.
func (o *Options) Validate() error {
	if len(o.Files) == 0 {
		return cli.Usagef("rules lint needs a file, a folder, or - for standard input")
	}
	return nil
}

// Run prints what it finds, and returns an AnswerError when there are errors.
func (o *Options) Run(_ context.Context, out *cli.Output) error {
	docs, err := documents.Read(o.Stdin, o.Files)
	if err != nil {
		return err
	}
	result := Check(docs, o.Consent)
	if out.ForPeople() {
		result.print(cli.Printable{To: out.Stdout})
	} else if err := out.Document(result); err != nil {
		return err
	}
	if result.Errors > 0 {
		return cli.Answerf(cli.ExitFailed, "%s in %s", cli.Plural(result.Errors, "error"), strings.Join(o.Files, " "))
	}
	return nil
}

// Result is what lint prints. Its JSON is stable: fields are only ever added.
type Result struct {
	Findings []Finding     `json:"findings"`
	Rules    []CheckedRule `json:"rules"`
	Errors   int           `json:"errors"`
	Warnings int           `json:"warnings"`
}

// Finding is about one field of one document.
type Finding struct {
	File     string `json:"file"`
	Line     int    `json:"line,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Severity string `json:"severity"` // error, warning or note
	Field    string `json:"field,omitempty"`
	Message  string `json:"message"`
}

// CheckedRule is a rule without errors, with the rights that it needs beyond the default.
type CheckedRule struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Name   string `json:"name"`
	Reader string `json:"readerClusterRole,omitempty"` // YAML, for the sources; of Secrets a Role and a RoleBinding for each namespace
	Writer string `json:"agentClusterRole,omitempty"`  // the same for the targets
}

// How bad a Finding is.
const (
	SeverityError   = "error"   // the rule cannot be used
	SeverityWarning = "warning" // it is right, but perhaps not meant
	SeverityNote    = "note"
)

// Check checks documents; policy tells what a cluster refuses unless told otherwise.
func Check(docs []*documents.Document, policy consent.Policy) *Result {
	out := &Result{Findings: []Finding{}, Rules: []CheckedRule{}}
	for _, d := range docs {
		if d.Err != nil {
			out.add(d, SeverityError, "", d.Err.Error())
			continue
		}
		switch gvk := d.Object.GroupVersionKind(); {
		case !IsRule(d):
			out.add(d, SeverityNote, "", fmt.Sprintf("a %s, not a ResourceSyncRule: ignored", cmp.Or(gvk.Kind, "document without kind")))
		default:
			out.rule(d, policy)
		}
	}
	return out
}

// IsRule tells whether a document is a ResourceSyncRule, of whichever version.
func IsRule(d *documents.Document) bool {
	gvk := d.Object.GroupVersionKind()
	return gvk.Kind == "ResourceSyncRule" && (gvk.Group == v1alpha1.GroupName || gvk.Group == "")
}

func (l *Result) rule(d *documents.Document, policy consent.Policy) {
	before := l.Errors
	rule, errs := DecodeRule(d)
	for _, e := range errs {
		l.add(d, SeverityError, e.Field, e.ErrorBody())
	}
	if rule == nil {
		return
	}
	compiled, err := syncrules.Compile(rule)
	for _, e := range fieldErrors(err) {
		l.add(d, SeverityError, e.Field, e.ErrorBody())
	}
	if compiled == nil {
		return
	}
	for _, w := range advise(rule, compiled, policy) {
		l.add(d, SeverityWarning, w.path, w.text)
	}
	if l.Errors == before {
		reader, writer := rightsOf(rule, compiled, policy.Namespace)
		l.Rules = append(l.Rules, CheckedRule{File: d.File, Line: d.Line, Name: rule.Name, Reader: reader, Writer: writer})
	}
}

// DecodeRule reads a rule strictly. The rule is nil when it cannot be read at all.
func DecodeRule(d *documents.Document) (*v1alpha1.ResourceSyncRule, field.ErrorList) {
	var errs field.ErrorList
	if v := d.Object.GetAPIVersion(); v != v1alpha1.SchemeGroupVersion.String() {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), v, []string{v1alpha1.SchemeGroupVersion.String()}))
	}
	var rule v1alpha1.ResourceSyncRule
	unread, whole := d.Decode(&rule)
	if errs = append(errs, unread...); !whole {
		return nil, errs
	}
	if rule.Name == "" && rule.GenerateName == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), "the name of the rule"))
	}
	if msgs := validation.NameIsDNSSubdomain(rule.Name, false); rule.Name != "" && len(msgs) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), rule.Name, msgs[0]))
	}
	return &rule, errs
}

// fieldErrors takes apart what Compile returns.
func fieldErrors(err error) field.ErrorList {
	var one *field.Error
	var many interface{ Errors() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &many):
		var out field.ErrorList
		for _, e := range many.Errors() {
			out = append(out, fieldErrors(e)...)
		}
		return out
	case errors.As(err, &one):
		return field.ErrorList{one}
	}
	return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
}

func (l *Result) add(d *documents.Document, severity, path, text string) {
	f := Finding{File: d.File, Line: d.Line, Severity: severity, Field: path, Message: cli.OneLine(text)}
	if d.Object != nil && IsRule(d) {
		f.Rule = d.Object.GetName()
	}
	if path != "" {
		f.Line = d.LineOf(path)
	}
	switch severity {
	case SeverityError:
		l.Errors++
	case SeverityWarning:
		l.Warnings++
	}
	l.Findings = append(l.Findings, f)
}

func (l *Result) print(w io.Writer) {
	for _, f := range l.Findings {
		text := f.Message
		if f.Field != "" {
			text = f.Field + ": " + text
		}
		fmt.Fprintf(w, "%s:%d: %s: %s\n", f.File, f.Line, f.Severity, text)
	}
	for _, r := range l.Rules {
		for _, role := range []struct{ text, where string }{
			{r.Reader, "in each cluster that is a source, to let the others read"},
			{r.Writer, "in each cluster that is a target, to let its agent write"},
		} {
			if role.text != "" {
				fmt.Fprintf(w, "\n# Rule %s needs, %s:\n%s", r.Name, role.where, role.text)
			}
		}
	}
	files := []string{}
	for _, r := range l.Rules {
		files = append(files, r.Name)
	}
	if len(l.Findings)+len(l.Rules) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%s without errors%s, %s, %s\n", cli.Plural(len(l.Rules), "rule"), parenthesis(slices.Compact(files)), cli.Plural(l.Errors, "error"), cli.Plural(l.Warnings, "warning"))
}

func parenthesis(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}
