package archtest_test

import (
	"go/ast"
	"strings"
	"testing"
)

// readsOnlyWhatPeopleRefuse maps functions that handle Declined and not Unseen to the reasons.
var readsOnlyWhatPeopleRefuse = map[string]string{
	"roundtrip/answer.go interpret":                 "it does not know the time; interpretAfter does",
	"roundtrip/askpage.go awaitOnPage":              "an answer of the page goes before what nobody saw",
	"roundtrip/pageround.go readLinks":              "the same",
	"internal/testing/servertest/subject.go deploy": "a handler: what it does not know it asks again",
}

// TestWhoeverReadsADeclineReadsUnseen: an unseen refusal must act like a decline, so a function
// that handles one must handle both. Handlers of examples and of the official suite's subjects may
// differ: they ask again or return unknown outcomes.
func TestWhoeverReadsADeclineReadsUnseen(t *testing.T) {
	seen := 0
	eachGoFile(t, func(file string, _ []byte, parsed *ast.File) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "examples/") ||
			strings.HasPrefix(file, subjects) {
			return
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			names := make(map[string]bool)
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					names[id.Name] = true
				}
				return true
			})
			if !names["Declined"] && !names["DeclinedError"] || f.Name.Name == "Error" {
				continue
			}
			seen++
			where := file + " " + f.Name.Name
			if _, excepted := readsOnlyWhatPeopleRefuse[where]; !excepted &&
				!names["Unseen"] && !names["UnseenError"] {
				t.Errorf("%s reads Declined and not Unseen", where)
			}
		}
	})
	if seen < 5 {
		t.Errorf("%d functions found", seen)
	}
}
