// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package selections

// step is how much of a list is judged before it is counted.
const step = 64 << 10

// List is what a list brings. It counts while it is judged: it could take more than there is before it is handed over.
type List struct {
	due, counted map[string]int64 // by rule
	sum          int64
	ended        map[string]bool
}

// Judge is told what one more object takes because of a rule, and says whether it is time to Count what was judged.
func (l *List) Judge(rule string, takes int64) (due bool) {
	if l.due == nil {
		l.due, l.counted = map[string]int64{}, map[string]int64{}
	}
	l.due[rule] += takes
	l.sum += takes
	return l.sum >= step
}

// Count hands over to count what was judged since the last time; ended says whether a selection has ended.
func (l *List) Count(count func(rule string, more int64), ended func(rule string) bool) {
	for rule, more := range l.due {
		l.counted[rule] += more
		count(rule, more)
	}
	for rule := range l.counted { // one may end as another one is counted
		if ended(rule) {
			if l.ended == nil {
				l.ended = map[string]bool{}
			}
			l.ended[rule] = true
		}
	}
	clear(l.due)
	l.sum = 0
}

// Ended says that the selection of a rule has ended as it was counted.
func (l *List) Ended(rule string) bool { return l.ended[rule] }

// Release is told that the list is handed over, or thrown away.
func (l *List) Release(count func(rule string, more int64)) {
	for rule, more := range l.counted {
		count(rule, -more)
	}
	*l = List{}
}
