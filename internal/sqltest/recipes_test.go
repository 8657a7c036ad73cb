package sqltest_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/server"
)

// An app has the tools of RECIPES.md, here on SQLite; PostgreSQL has the same statements.
type app struct{ db *sql.DB }

type outcome = protocol.CallToolOutcome

type Migration struct {
	Name string `json:"name"`
}

func (a *app) migrate(ctx context.Context, _ *server.ToolCall, in Migration) (outcome, error) {
	_, err := roundtrip.Ask[struct{}](ctx, "migrate", "Run migration "+in.Name+" on production?")
	if err != nil {
		return nil, err
	}
	result, err := a.db.ExecContext(ctx,
		"insert into migrations (name) values ($1) on conflict (name) do nothing", in.Name)
	if err != nil {
		return nil, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return server.Text(in.Name + " has run before"), err
	}
	return server.Text(in.Name + " has run"), nil // in the same transaction, where possible
}

type Table struct {
	Name string `json:"name"`
}

type Typed struct {
	Name string `json:"name" title:"Name of the table"`
}

// The tool drop makes the person type the name, three times at most.
func (a *app) drop(ctx context.Context, _ *server.ToolCall, in Table) (outcome, error) {
	question := "Type " + in.Name + " to delete all of its rows."
	for try := range 3 {
		typed, err := roundtrip.Ask[Typed](ctx, fmt.Sprint("name ", try), question)
		if err != nil {
			return nil, err
		}
		if typed.Name == in.Name {
			_, err := a.db.ExecContext(ctx, "delete from people")
			return server.Text("deleted"), err
		}
		question = "That was another name. Type " + in.Name + "."
	}
	return server.ErrorText("The name was wrong three times. Nothing was deleted."), nil
}

// The tool transfer makes the person choose among rows of the database.
func (a *app) transfer(ctx context.Context, _ *server.ToolCall, _ struct{}) (outcome, error) {
	accounts, err := roundtrip.Memo(ctx, "accounts", a.accounts)
	if err != nil {
		return nil, err
	}
	form, err := json.Marshal(map[string]any{
		"type": "object",
		"properties": map[string]any{
			"account": map[string]any{"type": "string", "title": "Account", "enum": accounts},
		},
		"required": []string{"account"},
	})
	if err != nil {
		return nil, err
	}
	content, err := roundtrip.ElicitSchema("account", "From which account?", form).Ask(ctx)
	if err != nil {
		return nil, err
	}
	var chosen struct{ Account string }
	if err := json.Unmarshal(content, &chosen); err != nil {
		return nil, err
	}
	return server.Text("from " + chosen.Account), nil
}

func (a *app) accounts(ctx context.Context) (names []string, err error) {
	rows, err := a.db.QueryContext(ctx, "select name from accounts order by name")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// The tool explain makes the client's model, if any, explain a plan.
func (a *app) explain(ctx context.Context, _ *server.ToolCall, in Table) (outcome, error) {
	plan := "SCAN " + in.Name // of the database
	if !roundtrip.CanAsk(ctx, protocol.KindCreateMessage) {
		return server.Text(plan), nil
	}
	said, err := roundtrip.AskMessage(ctx, "explain", &protocol.CreateMessage{
		MaxTokens: 200,
		Messages: []protocol.SamplingMessage{{
			Role:    protocol.User,
			Content: []protocol.Content{&protocol.TextContent{Text: "Explain this plan: " + plan}},
		}},
	})
	if err != nil {
		return nil, err
	}
	if len(said.Content) == 1 {
		if text, ok := said.Content[0].(*protocol.TextContent); ok {
			return server.Text(plan + ": " + text.Text), nil
		}
	}
	return server.Text(plan), nil
}

type File struct {
	Name  string   `json:"name"`
	Lines []string `json:"lines"`
}

// importFile asks in the middle, and imports each file once.
func (a *app) importFile(ctx context.Context, _ *server.ToolCall, in File) (outcome, error) {
	var people []string
	for _, line := range in.Lines {
		if line = strings.TrimSpace(line); line != "" {
			people = append(people, line)
		}
	}
	if broken := len(in.Lines) - len(people); broken > 0 {
		question := fmt.Sprintf("%d lines of %s are broken. Import the others?", broken, in.Name)
		if _, err := roundtrip.Ask[struct{}](ctx, "broken", question); err != nil {
			return nil, err
		}
	}
	key, err := roundtrip.IdempotencyKey(ctx, "import "+in.Name)
	if err != nil {
		return nil, err
	}
	if err := a.insertOnce(ctx, in.Name, key, people); err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprintf("%d people of %s are there", len(people), in.Name)), nil
}

// insertOnce inserts a file's people and the key, which marks repetitions, in one transaction.
func (a *app) insertOnce(ctx context.Context, file, key string, people []string) error {
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = tx.ExecContext(ctx,
		"insert into imports (file, key) values ($1, $2) on conflict (file) do nothing", file, key)
	if err != nil {
		return err
	}
	var by string
	var done bool
	err = tx.QueryRowContext(ctx, "select key, done from imports where file = $1", file).
		Scan(&by, &done)
	switch {
	case err != nil:
		return err
	case by != key:
		return errors.New(file + " is imported already")
	case done:
		return nil
	}
	for _, name := range people {
		if _, err := tx.ExecContext(ctx, "insert into people values ($1)", name); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "update imports set done = true where key = $1",
		key); err != nil {
		return err
	}
	return tx.Commit()
}

// newServer returns one replica: all share the database and the keys.
func (a *app) newServer(ctx context.Context, ring *keys.Keyring) (*server.Server, error) {
	shared, err := sqlstore.New(ctx, a.db, &sqlstore.Options{Dialect: sqlstore.SQLite})
	if err != nil {
		return nil, err
	}
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "people", Version: "1.0.0"},
		Roundtrip: roundtrip.Options{
			Sealer: ring, Guard: shared, StateStore: shared,
		},
	})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "migrate"}, a.migrate)
	server.AddTool(srv, server.Tool{Name: "drop"}, a.drop)
	server.AddTool(srv, server.Tool{Name: "transfer"}, a.transfer)
	server.AddTool(srv, server.Tool{Name: "explain"}, a.explain)
	server.AddTool(srv, server.Tool{Name: "import"}, a.importFile)
	return srv, nil
}

func newApp(t *testing.T) *app {
	t.Helper()
	db, _ := newSQLite(t)
	for _, statement := range []string{
		"create table migrations (name text primary key)",
		"create table people (name text)", "create table accounts (name text)",
		"create table imports (file text primary key, key text, done boolean default false)",
		"insert into accounts values ('main'), ('savings')",
	} {
		mustExec(t, db, statement)
	}
	return &app{db}
}

// TestRecipes plays the page's tools in both eras, and attacks the tools with effects.
func TestRecipes(t *testing.T) {
	yes, typed := roundtriptest.Accept(nil), func(name string) roundtriptest.Answer {
		return roundtriptest.Accept(Typed{name})
	}
	books := Table{"books"}
	file := File{"a.txt", []string{"Ada", " ", "Bob"}}
	flows := []roundtriptest.Flow{
		{Name: "migrate", Request: roundtriptest.Tool("migrate", Migration{"0007"}),
			Answers: roundtriptest.Answers{"migrate": yes}, Want: "0007 has run"},
		{Name: "drop", Request: roundtriptest.Tool("drop", books),
			Answers: roundtriptest.Answers{"name 0": typed("book"), "name 1": typed("books")},
			Want:    "deleted"},
		{Name: "transfer", Request: roundtriptest.Tool("transfer", nil),
			Answers: roundtriptest.Answers{"account": roundtriptest.Accept(
				map[string]string{"account": "savings"})}, Want: "from savings"},
		{Name: "explain", Request: roundtriptest.Tool("explain", books),
			Answers: roundtriptest.Answers{"explain": roundtriptest.Sampled("It reads all.")},
			Want:    "SCAN books: It reads all."},
		{Name: "import", Request: roundtriptest.Tool("import", file),
			Answers: roundtriptest.Answers{"broken": yes}, Want: "2 people of a.txt are there"},
	}
	for _, flow := range flows {
		subject := roundtriptest.Server(func() (*server.Server, error) {
			return newApp(t).newServer(t.Context(), servertest.NewKeyring("recipes"))
		})
		subject.SingleUse = true
		roundtriptest.Run(t, subject, flow)
		roundtriptest.Attack(t, subject, flow)
	}
	wrong := roundtriptest.Flow{Name: "wrong names", Request: roundtriptest.Tool("drop", books),
		Answers: roundtriptest.Answers{"name 0": typed("a"), "name 1": typed("b"),
			"name 2": typed("c")}, Fails: "Nothing was deleted"}
	roundtriptest.Run(t, roundtriptest.Server(func() (*server.Server, error) {
		return newApp(t).newServer(t.Context(), servertest.NewKeyring("recipes"))
	}), wrong)
}

// TestRecipeImportsOnce repeats an answer at two replicas without a guard: one import.
func TestRecipeImportsOnce(t *testing.T) {
	a := newApp(t)
	var replicas []*client.Client
	for range 2 {
		srv, err := server.New(&server.Options{
			Info: protocol.Implementation{Name: "people", Version: "1.0.0"},
			Roundtrip: roundtrip.Options{Sealer: servertest.NewKeyring("recipes"),
				MinHumanTime: -1}})
		noError(t, err)
		server.AddTool(srv, server.Tool{Name: "import"}, a.importFile)
		t.Cleanup(func() { _ = srv.Close() })
		c, err := client.New(srv, &client.Options{Manual: &protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}}})
		noError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		replicas = append(replicas, c)
	}
	begin := func() *client.Pending {
		_, pending, err := replicas[0].Begin(t.Context(), &protocol.CallToolParams{Name: "import",
			Arguments: json.RawMessage(`{"name":"a.txt","lines":["Ada","","Bob"]}`)})
		noError(t, err)
		yes := &protocol.ElicitResult{Action: protocol.ActionAccept}
		noError(t, pending.Answer("broken", yes))
		return pending
	}
	resume := func(c *client.Client, pending *client.Pending) *protocol.CallToolResult {
		result, _, err := c.Resume(t.Context(), pending)
		noError(t, err)
		return result.(*protocol.CallToolResult)
	}
	pending := begin()
	for _, c := range []*client.Client{replicas[1], replicas[0], replicas[1], replicas[0]} {
		if result := resume(c, pending); result.IsError {
			t.Errorf("a repetition got %+v", result.Content[0])
		}
	}
	if result := resume(replicas[1], begin()); !result.IsError {
		t.Error("another call imported the file again")
	}
	var n int
	if err := a.db.QueryRow("select count(*) from people").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d people, %v, want 2", n, err)
	}
}
