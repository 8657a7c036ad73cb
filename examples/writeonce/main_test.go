package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/leaktest"
)

// TestMain is the server, too: run starts this program once more.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{serveArg}) {
		main()
		return
	}
	leaktest.Main(m)
}

func TestRun(t *testing.T) {
	const want = `
== The person answers

2026-07-28, HTTP                    2025-11-25, HTTP session            2025-11-25, session of a process

asked    Which evening?             asked    Which evening?             asked    Which evening?
answered {"day":"sat"}              answered {"day":"sat"}              answered {"day":"sat"}
asked    Where, for 2?              asked    Where, for 2?              asked    Where, for 2?
answered {"place":"garden"}         answered {"place":"garden"}         answered {"place":"garden"}
result   Ada, sat, 2 guests: garden result   Ada, sat, 2 guests: garden result   Ada, sat, 2 guests: garden

== The person declines the second question

2026-07-28, HTTP                    2025-11-25, HTTP session            2025-11-25, session of a process

asked    Which evening?             asked    Which evening?             asked    Which evening?
answered {"day":"fri","guests":9}   answered {"day":"fri","guests":9}   answered {"day":"fri","guests":9}
asked    Where, for 9?              asked    Where, for 9?              asked    Where, for 9?
declined                            declined                            declined
result   nothing is booked          result   nothing is booked          result   nothing is booked

The transcripts are the same.
`
	var got strings.Builder
	if err := run(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != strings.TrimPrefix(want, "\n") {
		t.Errorf("got:\n%s\nwant:%s", &got, want)
	}
}

// TestSame: what run rests on can tell transcripts apart.
func TestSame(t *testing.T) {
	asked := transcript{lines: []string{"asked    Which evening?", "declined"}}
	for _, tt := range []struct {
		name  string
		other []string
		want  bool
	}{
		{"same", []string{"asked    Which evening?", "declined"}, true},
		{"another answer", []string{"asked    Which evening?", "answered {}"}, false},
		{"asked twice",
			[]string{"asked    Which evening?", "declined", "asked    Which evening?"}, false},
		{"never asked", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := same([]transcript{asked, asked, {lines: tt.other}}); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
