package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// A person has an answer for every question. Empty: the person declines.
type person struct {
	name    string
	answers map[string]string
}

var (
	accepts = person{"The person answers", map[string]string{
		"Which evening?": `{"day":"sat"}`, // two guests, unless the person says otherwise
		"Where, for 2?":  `{"place":"garden"}`,
	}}
	declines = person{"The person declines the second question", map[string]string{
		"Which evening?": `{"day":"fri","guests":9}`,
		"Where, for 9?":  "",
	}}
)

// A transcript is what happened at one client.
type transcript struct {
	name     string
	revision protocol.Version
	lines    []string
}

// take has a client call the tool, and its person answer.
func (t *transcript) take(ctx context.Context, peer protocol.Peer, era protocol.Era,
	p person) error {
	c, err := client.New(peer, &client.Options{
		Era: era,
		ElicitForm: func(_ context.Context,
			q *client.FormQuestion) (*protocol.ElicitResult, error) {
			t.lines = append(t.lines, "asked    "+q.Message)
			answer := p.answers[q.Message]
			if answer == "" {
				time.Sleep(time.Second / 2) // as people do: a refusal at once is no person's
				t.lines = append(t.lines, "declined")
				return client.Decline(), nil
			}
			t.lines = append(t.lines, "answered "+answer)
			return client.Accept(json.RawMessage(answer))
		},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "book", Booking{Name: "Ada"})
	if err != nil {
		return err
	}
	t.revision = c.Negotiated()
	for _, block := range result.Content {
		if text, ok := block.(*protocol.TextContent); ok {
			t.lines = append(t.lines, "result   "+text.Text)
		}
	}
	return nil
}

// same reports whether the same was asked, answered and returned everywhere.
func same(all []transcript) bool {
	differs := func(t transcript) bool { return !slices.Equal(t.lines, all[0].lines) }
	return !slices.ContainsFunc(all, differs)
}

// columns prints transcripts side by side.
func columns(out io.Writer, all []transcript) {
	rows := make([]string, 2) // the heads and an empty line
	for _, t := range all {
		for i, text := range append([]string{string(t.revision) + ", " + t.name, ""}, t.lines...) {
			if i == len(rows) {
				rows = append(rows, "")
			}
			rows[i] += fmt.Sprintf("%-36s", text)
		}
	}
	for _, row := range rows {
		fmt.Fprintln(out, strings.TrimRight(row, " "))
	}
	fmt.Fprintln(out)
}
