package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// TestMain runs one of the servers if the test is a child process that run has started.
func TestMain(m *testing.M) {
	if os.Getenv(envFile) != "" {
		main()
		return
	}
	testkit.Main(m)
}

func TestLongrun(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), &out)
	said := out.String()
	if err != nil {
		t.Fatalf("%v, after:\n%s", err, said)
	}
	rest := said
	for _, line := range []string{"client:   calls the tool", "server A: counts chapter 1",
		"server A: counts chapter 2", "longrun:  kills server A", "server B: counts chapter 2",
		"server B: counts chapter 3", `person:   is asked "The book has 6000 words.`,
		"person:   answers 20", `client:   has "20 copies of 6000 words"`} {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Fatalf("%q is missing, or comes too early, in:\n%s", line, said)
		}
		rest = after
	}
	for _, once := range []string{"counts chapter 1", "counts chapter 3", "is asked"} {
		if n := strings.Count(said, once); n != 1 {
			t.Errorf("%q comes %d times in:\n%s", once, n, said)
		}
	}
}
