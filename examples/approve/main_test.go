package main

import (
	"bufio"
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var links = regexp.MustCompile(`http://127\.0\.0\.1:\d+/approve\?visit=\w+`)

// The output shows that every client reaches the person.
func TestEveryClientReachesThePerson(t *testing.T) {
	const inWords = `model reads: Nothing was done yet: a person has to answer first, and this ` +
		`client does not show the question. Show the person this link with what it asks, and ` +
		`call again with the same arguments when they have answered.
LINK
`
	const want = `== A client that shows forms
client shows a form: Pay 100 EUR to Ada?
model reads: paid 100 EUR: as agreed
== A client that shows links
client shows a link: Pay 101 EUR to Ada?
person opens: LINK
model reads: paid 101 EUR: as agreed
== A client that declines at once
` + inWords + `Pay 102 EUR to Ada?
person opens: LINK
model reads: paid 102 EUR: as agreed
== A client that shows nothing
` + inWords + `Pay 103 EUR to Ada?
person opens: LINK
model reads: paid 103 EUR: as agreed
`
	var out bytes.Buffer
	if err := run(t.Context(), &person{out: &out, auto: true}); err != nil {
		t.Fatalf("%v, after:\n%s", err, out.String())
	}
	if got := links.ReplaceAllString(out.String(), "LINK"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	opened := map[string]bool{}
	for _, link := range links.FindAllString(out.String(), -1) {
		opened[link] = true
	}
	if len(opened) != 3 {
		t.Errorf("%d questions on the page, want 3", len(opened))
	}
}

// Nothing is paid while nobody answers: a link that is only shown approves nothing.
func TestNothingIsPaidWhileNobodyAnswers(t *testing.T) {
	page, err := visit.NewQuestions("http://127.0.0.1:1/approve",
		&visit.QuestionOptions{Options: visit.Options{Visitor: visit.LocalVisitor}})
	testkit.NoError(t, err)
	var out bytes.Buffer
	p := &person{in: bufio.NewReader(strings.NewReader("")), out: &out}
	err = call(t.Context(), page, &client.Options{}, p, Payment{"Ada", 1})
	if err == nil || strings.Contains(out.String(), ": paid") {
		t.Errorf("%v, after:\n%s", err, out.String())
	}
}
