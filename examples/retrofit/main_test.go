package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestRetrofit: what the program shows is true. Before, no client can be asked;
// after, each is asked once, in either era, and what the person says is done.
func TestRetrofit(t *testing.T) {
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run("before/"+revision, func(t *testing.T) {
			kept := newFiles("draft.txt")
			said, asked, err := call(t.Context(), before(kept), revision, "accept")
			if err != nil || !strings.HasPrefix(said, "failed: ") || asked != 0 ||
				len(kept.list()) != 1 {
				t.Errorf("said %q, %v, asked %d times, left are %q", said, err, asked, kept.list())
			}
		})
		for action, want := range map[string]string{"accept": "deleted draft.txt",
			"decline": "kept draft.txt", "cancel": "kept draft.txt"} {
			t.Run("after/"+revision+"/"+action, func(t *testing.T) {
				kept := newFiles("draft.txt", "report.txt")
				handler, err := after(kept)
				if err != nil {
					t.Fatal(err)
				}
				said, asked, err := call(t.Context(), handler, revision, action)
				if err != nil || said != want || asked != 1 {
					t.Errorf("said %q, %v, asked %d times, want %q", said, err, asked, want)
				}
				if left := slices.Contains(kept.list(), "draft.txt"); left == (action == "accept") {
					t.Errorf("left are %q", kept.list())
				}
			})
		}
	}
}

// TestShow: the program runs to its end and shows failures before, none after.
func TestShow(t *testing.T) {
	var out bytes.Buffer
	if err := show(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 8 {
		t.Fatalf("it says:\n%s", out.String())
	}
	for _, line := range lines {
		failed := strings.Contains(line, "failed: ")
		if failed != strings.HasPrefix(line, "before") {
			t.Errorf("it says: %s", line)
		}
	}
}
