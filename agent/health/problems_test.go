// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestProblemsTellOnlyNews: whoever watches is told of another problem, or one less, and of nothing else.
func TestProblemsTellOnlyNews(t *testing.T) {
	told := 0
	var p Problems
	gone, restored := errors.New("its Cluster object is gone"), errors.New("restored")
	_ = p.Set("early", gone)
	p.Watch(func() { told++ })
	_ = p.Set("early", nil)
	credential := p.Reporter("credential")
	_ = credential(gone)
	if err := credential(gone); !errors.Is(err, gone) {
		t.Errorf("it returns %v", err)
	}
	_ = p.Set("restored", restored)
	if told != 3 || p.String() != gone.Error()+"; "+restored.Error() {
		t.Errorf("told %d times, %q", told, &p)
	}
	_ = credential(nil)
	_ = p.Set("restored", nil)
	if told != 5 || p.String() != "" {
		t.Errorf("told %d times, %q", told, &p)
	}
}

// TestManyProblemsStayShort: a status message has an end.
func TestManyProblemsStayShort(t *testing.T) {
	var p Problems
	for i := range 1000 {
		_ = p.Set(fmt.Sprint("part ", i), errors.New("there is no room"))
	}
	if want := "and 997 more"; !strings.HasSuffix(p.String(), want) || len(p.String()) > 1000 {
		t.Errorf("%q, want it to end with %q", &p, want)
	}
}

// TestOnce: a complaint is news when it is another one than the last about the same object, and memory is bounded.
func TestOnce(t *testing.T) {
	var o Once
	for i, c := range []struct {
		uid, text string
		want      bool
	}{
		{"a", "bad", true}, {"a", "bad", false}, {"b", "bad", true}, {"a", "worse", true}, {"a", "bad", true},
	} {
		if got := o.First(c.uid, c.text); got != c.want {
			t.Errorf("%d: %v is the first: %t", i, c, got)
		}
	}
	for i := range 3 * maxRemembered {
		o.First(fmt.Sprint(i), "bad")
	}
	if len(o.last) > maxRemembered {
		t.Errorf("%d are remembered", len(o.last))
	}
}
