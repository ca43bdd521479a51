// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
)

// completionTimeout is how long a shell may hang after the tab key.
const completionTimeout = 2 * time.Second

// CompletedWord is the environment variable in which the completion scripts hand over the word at the cursor. The words
// before it are the command line.
const CompletedWord = "AGENTCTL_WORD"

// Question is what a shell asks: what may stand in the place of the word at the cursor.
type Question struct {
	Command string            // with those above it: "rules explain"
	Flag    string            // the flag, without dashes, whose value the word is; "" where it is an argument
	Args    []string          // the arguments before the word
	Flags   map[string]string // the last value of each flag before the word, by its first name
	Word    string            // what has been typed of the word
}

// Names answers questions with names, from a kubeconfig or a cluster; nil where it knows none, or cannot be asked.
type Names func(ctx context.Context, q Question) []string

// Complete answers a shell that asks for a name, and nothing if there is none within two seconds: no error is ever shown.
// The caller exits then, whatever names still does. It reports false where the command line does not end in such a question: the flag library answers those about commands and flags.
func Complete(ctx context.Context, app *urfave.App, args []string, word string, names Names, out io.Writer) bool {
	if len(args) < 2 || args[len(args)-1] != CompletionFlag {
		return false
	}
	q, commands := ask(app, args[1:len(args)-1], word)
	last := args[len(args)-2]
	if isFlag := strings.HasPrefix(last, "-") && !strings.Contains(last, "="); q.Flag == "" && (isFlag || len(commands) > 0) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	answer := make(chan []string, 1)
	go func() { answer <- names(ctx, q) }() // a credential plugin of a kubeconfig does not end with the context
	select {
	case found := <-answer:
		for _, name := range found {
			if strings.HasPrefix(name, q.Word) {
				fmt.Fprintln(Printable{out}, name)
			}
		}
	case <-ctx.Done():
	}
	return true
}

// ask reads the words before the cursor. commands are those of which one may follow.
func ask(app *urfave.App, words []string, word string) (q Question, commands []*urfave.Command) {
	q = Question{Flags: map[string]string{}, Word: word}
	flags, commands := app.Flags, app.Commands
	var path []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		name, value, joined := strings.Cut(w, "=")
		switch {
		case strings.HasPrefix(w, "-") && takesValue(flags, name):
			name = firstName(flags, name)
			switch {
			case joined:
				q.Flags[name] = value
			case i+1 == len(words):
				q.Flag = name
			default:
				i++
				q.Flags[name] = words[i]
			}
		case strings.HasPrefix(w, "-"):
		default:
			at := slices.IndexFunc(commands, func(c *urfave.Command) bool { return c.HasName(w) })
			if at < 0 {
				q.Args, commands = append(q.Args, w), nil
				continue
			}
			path = append(path, commands[at].Name)
			flags, commands = commands[at].Flags, commands[at].Subcommands
		}
	}
	q.Command = strings.Join(path, " ")
	return q, commands
}

// firstName is the name of a flag under which its value is kept.
func firstName(flags []urfave.Flag, word string) string {
	name := strings.TrimLeft(word, "-")
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f.Names()[0]
		}
	}
	return name
}
