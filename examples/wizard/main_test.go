package main

import (
	"strings"
	"testing"
)

// TestRun: the person sees the same in both eras, is asked six questions, and
// pays once.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	_, both, _ := strings.Cut(out.String(), "== A modern client\n")
	modern, legacy, found := strings.Cut(both, "== A legacy client\n")
	if !found || modern != legacy {
		t.Errorf("the eras differ:\n%s", out.String())
	}
	const want = `   asked: Where is books to live? -> {"name":"us"}
   asked: How large, in us? -> {"gigabytes":500}
   asked: books, 500 GB in us for 12501 cents. Change anything? -> {"change":"region"}
   asked: Where is books to live? -> {"name":"eu"}
   asked: How large, in eu? -> {}
   asked: books, 10 GB in eu for 252 cents. Change anything? -> {"change":"nothing"}
   bank: 252 cents
   mail: books is paid
result: books, 10 GB in eu for 252 cents: receipt 1
charges: 1
`
	if modern != want {
		t.Errorf("got\n%swant\n%s", modern, want)
	}
}
