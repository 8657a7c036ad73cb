package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// These are scopes of access tokens.
const (
	scopeRead = "accounts:read"
	scopePay  = "accounts:pay"
)

// A bank stands for the system behind the server, which all replicas share. Here it is a folder: a
// payment is a file, and so is a confirmed login.
type bank struct {
	folder string
	public string // URL at which browsers reach this server
}

func (b *bank) register(s *server.Server) {
	server.AddToolOut(s, server.Tool{
		Name: "balance", Description: "Says how many payments were made.",
		Scopes:      []string{scopeRead},
		Annotations: &protocol.ToolAnnotations{ReadOnlyHint: new(true)},
	}, b.balance)
	server.AddTool(s, server.Tool{
		Name: "pay", Description: "Pays a bill, after the person has approved it.",
		Scopes: []string{scopePay},
	}, b.pay)
	server.AddTool(s, server.Tool{
		Name: "connect", Description: "Connects a bank account, on a page of the bank.",
		Scopes: []string{scopePay},
	}, b.connect)
	server.AddTool(s, server.Tool{
		Name: "explain", Description: "Explains an entry of a statement, by the client's model.",
		Scopes: []string{scopeRead},
	}, b.explain)
}

// Balance is a typed result. The tool's output schema is derived from it.
type Balance struct {
	Payments int `json:"payments"`
}

func (b *bank) balance(context.Context, *server.ToolCall, struct{}) (Balance, error) {
	files, err := filepath.Glob(filepath.Join(b.folder, "payment-*"))
	return Balance{len(files)}, err
}

// Bill is the input of pay.
type Bill struct {
	To    string `json:"to" jsonschema:"who gets the money" maxLength:"80"`
	Cents int    `json:"cents" jsonschema:"how much, in cents" minimum:"1" maximum:"1000000"`
}

// Approval is the person's form.
type Approval struct {
	Reference string `json:"reference,omitempty" title:"Reference" maxLength:"40"`
}

// pay first asks and then acts. The key names the payment. It is the same in every replay of the
// call, on each replica, so the money moves only once.
func (b *bank) pay(ctx context.Context, _ *server.ToolCall, bill Bill) (
	protocol.CallToolOutcome, error) {
	approval, err := roundtrip.Ask[Approval](ctx, "approve",
		fmt.Sprintf("Pay %d.%02d to %s?", bill.Cents/100, bill.Cents%100, bill.To))
	if declined := (*roundtrip.DeclinedError)(nil); errors.As(err, &declined) {
		return server.Text("Nothing was paid: the person declined."), nil
	}
	if err != nil {
		return nil, err
	}
	key, err := roundtrip.IdempotencyKey(ctx,
		fmt.Sprintf("%d to %s, %s", bill.Cents, bill.To, approval.Reference))
	if err != nil {
		return nil, err
	}
	if err := b.transfer(key, bill, approval.Reference); err != nil {
		return nil, err
	}
	return server.Text("Paid."), nil
}

func (b *bank) transfer(key string, bill Bill, reference string) error {
	f, err := os.OpenFile(filepath.Join(b.folder, "payment-"+key),
		os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // this is a replay: the money has already moved
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d %q %q\n", bill.Cents, bill.To, reference)
	return errors.Join(err, f.Close())
}

// connect sends the person to a page and waits for the visit. The client never sees the input.
func (b *bank) connect(ctx context.Context, _ *server.ToolCall, _ struct{}) (
	protocol.CallToolOutcome, error) {
	visit, err := roundtrip.Nonce(ctx, "visit")
	if err != nil {
		return nil, err
	}
	err = roundtrip.AskURL(ctx, "visit", "Please log in to your bank.", b.public+"/visits/"+visit)
	if err != nil {
		return nil, err
	}
	err = roundtrip.Await(ctx, "visit", func(context.Context) (bool, error) {
		_, err := os.Stat(b.visitFile(visit))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	return server.Text("The account is connected."), nil
}

// Entry is the input of explain.
type Entry struct {
	Text string `json:"text" jsonschema:"the entry, as the statement spells it" maxLength:"200"`
}

// explain asks the client's model for a sentence. Clients without a model get the entry back.
func (b *bank) explain(ctx context.Context, _ *server.ToolCall, in Entry) (
	protocol.CallToolOutcome, error) {
	if !roundtrip.CanAsk(ctx, protocol.KindCreateMessage) {
		return server.Text(in.Text), nil
	}
	said, err := roundtrip.AskMessage(ctx, "explain", &protocol.CreateMessage{
		MaxTokens:    200,
		SystemPrompt: "Explain the entry of a bank statement in one sentence.",
		Messages: []protocol.SamplingMessage{{
			Role:    protocol.User,
			Content: []protocol.Content{&protocol.TextContent{Text: in.Text}},
		}},
	})
	if err != nil {
		return nil, err
	}
	for _, block := range said.Content {
		if text, ok := block.(*protocol.TextContent); ok {
			return server.Text(text.Text), nil
		}
	}
	return server.ErrorText("The model wrote no text."), nil
}
