package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// A flow is one call and what comes of it.
type flow struct {
	name   string
	person person
	call   func(context.Context, *client.Client) (string, error)
	legs   int
	want   string
}

func tool(name, args string) func(context.Context, *client.Client) (string, error) {
	return func(ctx context.Context, c *client.Client) (string, error) {
		r, err := c.CallTool(ctx, name, raw(args))
		if err != nil {
			return "", err
		}
		text := textOf(r.Content)
		if r.IsError {
			text = "error: " + text
		}
		return text, nil
	}
}

func prompt(name string,
	args map[string]string) func(context.Context, *client.Client) (string, error) {
	return func(ctx context.Context, c *client.Client) (string, error) {
		r, err := c.GetPrompt(ctx, name, args)
		if err != nil || len(r.Messages) != 1 {
			return "", fmt.Errorf("prompt %+v: %w", r, err)
		}
		return fmt.Sprint(r.Messages[0].Role, ": ",
			textOf([]protocol.Content{r.Messages[0].Content})), nil
	}
}

func resource(uri string) func(context.Context, *client.Client) (string, error) {
	return func(ctx context.Context, c *client.Client) (string, error) {
		r, err := c.ReadResource(ctx, uri)
		if err != nil || len(r.Contents) != 1 {
			return "", fmt.Errorf("resource %+v: %w", r, err)
		}
		return r.Contents[0].URI + " " + r.Contents[0].Text, nil
	}
}

func flows() []flow {
	because := person{"confirm": `{"reason":"it is tested"}`}
	return []flow{
		{"single-round", because, tool("deploy", `{"env":"prod"}`), 2,
			"deployed to prod: it is tested"},
		{"three-rounds", person{"region": `{"name":"eu"}`, "size": `{"cores":8}`,
			"contact": `{"email":"ada@example.com"}`},
			tool("wizard", ``), 4, "8 cores in eu for ada@example.com, round 4, saw eu"},
		{"defaults", person{"region": `{"name":"us"}`, "size": `{}`,
			"contact": `{"email":"ada@example.com"}`},
			tool("wizard", ``), 4, "2 cores in us for ada@example.com, round 4, saw us"},
		{"decline", person{"confirm": "decline"}, tool("deploy", `{"env":"prod"}`), 2,
			"left prod alone: declined"},
		{"cancel", person{"confirm": "cancel"}, tool("deploy", `{"env":"prod"}`), 2,
			"left prod alone: cancelled"},
		{"no-nagging", person{"region": "decline"}, tool("wizard", ``), 2, "error: declined: region; the person does not want this: do not call again unless they ask for it"},
		{"typed-result", person{"region": `{"name":"eu"}`}, tool("provision", `{}`), 2,
			`{"region":"eu","cores":2}`},
		{"sampling", nil, tool("summarize", ``), 2, "model model-1 says: It is short."},
		{"roots", nil, tool("tidy", ``), 2, "2 directories"},
		{"url", person{"login": "{}"}, tool("sign_in", ``), 2, "visit accepted"},
		{"prompt", person{"contact": `{"email":"bob@example.com"}`},
			prompt("brief", map[string]string{"topic": "rondos"}), 2,
			"user: Write about rondos for bob@example.com"},
		{"resource", because, resource("vault://codes"), 2, "vault://codes opened: it is tested"},
		{"template", because, resource("vault://box/7"), 2, "vault://box/7 opened: it is tested"},
		{"state-only", nil, tool("poll", ``), 3, "ready"},
		{"all-at-once", person{"confirm": `{"reason":"it is tested"}`, "login": "decline"},
			tool("survey", ``), 2,
			"accepted it is tested, It is short., 2 directories, visit declined"},
		{"is-error", because, tool("fail", ``), 2, "error: the disk is full"},
		{"no-question", nil, tool("plain", ``), 1, "plain"},
	}
}

// TestFlows takes every kind of flow over every route, holds what was said against the rules of
// multi round-trip requests and the published schema, and compares it with the transcripts.
func TestFlows(t *testing.T) {
	for _, f := range flows() {
		for _, r := range routes() {
			t.Run(f.name+"/"+r.name, func(t *testing.T) {
				c, said := r.open(t, f.person.options())
				got, err := f.call(within(t, patience), c)
				if err != nil || got != f.want {
					t.Fatalf("got %q, %v, want %q", got, err, f.want)
				}
				messages := said()
				wiretest.Conform(t, revision, messages)
				if legs := checkFlow(t, messages); legs != f.legs {
					t.Errorf("took %d legs, want %d", legs, f.legs)
				}
				compare(t, f.name, r.name, messages)
			})
		}
	}
}

// compare holds HTTP against its transcript, and what is said in process against the bodies of the
// same transcript: both must be the same messages. Event streams have transcripts of their own.
func compare(t *testing.T, name, route string, messages []wiretest.Message) {
	t.Helper()
	switch route {
	case "http":
		wiretest.Golden(t, "testdata/"+name+".txtar", messages)
	case "events":
		wiretest.Golden(t, "testdata/events/"+name+".txtar", messages)
	default:
		over, err := txtar.ParseFile("testdata/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		got := wiretest.Transcript(messages).Files
		if len(got) != len(over.Files) {
			t.Fatalf("got %d messages, want the %d of the transcript", len(got), len(over.Files))
		}
		for i, file := range over.Files {
			_, body, _ := strings.Cut(string(file.Data), "\n\n")
			if string(got[i].Data) != body {
				t.Errorf("message %d:\n got %swant %s", i+1, got[i].Data, body)
			}
		}
	}
}
