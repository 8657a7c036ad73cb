package roundtrip_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// The user agrees to visit a link; Await waits for the end of the visit.
func ExampleAwait() {
	paid := func(context.Context) (bool, error) { return true, nil } // asks the bank
	handler := func(ctx context.Context) (protocol.Result, error) {
		err := roundtrip.AskURL(ctx, "pay", "Pay here:", "https://bank.example/pay/7")
		if err != nil {
			return nil, err
		}
		if err := roundtrip.Await(ctx, "pay", paid); err != nil {
			return nil, err
		}
		return done("paid")
	}
	play(handler, map[string]string{"pay": `{"action":"accept"}`})
	// Output:
	// asked: Pay here: https://bank.example/pay/7
	// done: paid
}

// A link for the user to visit. Nil means that they agreed to go there.
func ExampleAskURL() {
	handler := func(ctx context.Context) (protocol.Result, error) {
		err := roundtrip.AskURL(ctx, "login", "Sign in:", "https://id.example/login")
		if err != nil {
			return nil, err
		}
		return done("on their way")
	}
	play(handler, map[string]string{"login": `{"action":"accept"}`})
	play(handler, map[string]string{"login": `{"action":"cancel"}`})
	// Output:
	// asked: Sign in: https://id.example/login
	// done: on their way
	// asked: Sign in: https://id.example/login
	// done: cancelled: login; the person has not decided: call again only if they want to
}

// The client's model writes a text.
func ExampleAskMessage() {
	handler := func(ctx context.Context) (protocol.Result, error) {
		result, err := roundtrip.AskMessage(ctx, "title", &protocol.CreateMessage{
			MaxTokens: 20,
			Messages: []protocol.SamplingMessage{{
				Role:    protocol.User,
				Content: []protocol.Content{&protocol.TextContent{Text: "A title for it?"}},
			}},
		})
		if err != nil {
			return nil, err
		}
		return done("title: " + result.Content[0].(*protocol.TextContent).Text)
	}
	play(handler, map[string]string{
		"title": `{"role":"assistant","model":"m","content":{"type":"text","text":"Summer"}}`,
	})
	// Output:
	// asked the model
	// done: title: Summer
}

// A handler that can do without an answer checks first. This client lists no roots.
func ExampleCanAsk() {
	handler := func(ctx context.Context) (protocol.Result, error) {
		if !roundtrip.CanAsk(ctx, protocol.KindListRoots) {
			return done("took the default folder")
		}
		roots, err := roundtrip.AskRoots(ctx, "roots")
		if err != nil {
			return nil, err
		}
		return done("took " + roots[0].URI)
	}
	play(handler, nil)
	// Output:
	// done: took the default folder
}

// A user who declines is not asked again, unless the question says so.
func ExampleAskAgain() {
	type Consent struct {
		Sure bool `json:"sure"`
	}
	tries := 0
	handler := func(ctx context.Context) (protocol.Result, error) {
		if tries++; tries > 2 {
			return done("gave up")
		}
		consent, ok := roundtrip.AcceptedContent[Consent](ctx, "delete")
		if !ok || !consent.Sure {
			return roundtrip.InputRequired(roundtrip.Elicit[Consent]("delete", "Delete?",
				roundtrip.AskAgain())), nil
		}
		return done("deleted")
	}
	play(handler, map[string]string{"delete": `{"action":"decline"}`})
	// Output:
	// asked: Delete?
	// asked: Delete?
	// done: gave up
}

// A service that acts once per key may be called in every round. The key names the payment.
func ExampleIdempotencyKey() {
	calls, charges := 0, make(map[string]int) // of a bank that charges once for each key
	type Address struct {
		Street string `json:"street"`
	}
	handler := func(ctx context.Context) (protocol.Result, error) {
		const cents = 1999
		key, err := roundtrip.IdempotencyKey(ctx, fmt.Sprint("charge ", cents))
		if err != nil {
			return nil, err
		}
		calls, charges[key] = calls+1, cents
		to, err := roundtrip.Ask[Address](ctx, "address", "Paid. Where do you live?")
		if err != nil {
			return nil, err
		}
		return done(fmt.Sprintf("sent to %s: %d calls, %d charge", to.Street, calls, len(charges)))
	}
	play(handler, map[string]string{
		"address": `{"action":"accept","content":{"street":"Rue Ada"}}`,
	})
	// Output:
	// asked: Paid. Where do you live?
	// done: sent to Rue Ada: 2 calls, 1 charge
}

// The choices of a form known only at run time: the user's accounts.
func ExampleQuestion_Ask() {
	accounts := []string{"main", "savings"}
	handler := func(ctx context.Context) (protocol.Result, error) {
		form, err := json.Marshal(map[string]any{
			"type": "object",
			"properties": map[string]any{
				"account": map[string]any{"type": "string", "enum": accounts},
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
		var chosen struct {
			Account string `json:"account"`
		}
		if err := json.Unmarshal(content, &chosen); err != nil {
			return nil, err
		}
		return done("from " + chosen.Account)
	}
	play(handler, map[string]string{"account": `{"action":"accept","content":{"account":"savings"}}`})
	// Output:
	// asked: From which account?
	// done: from savings
}

// A form of the missing fields: the tool's caller has supplied the amount.
func ExampleOmitFields() {
	type Expense struct {
		Cents    int    `json:"cents" title:"Cents" minimum:"1"`
		Category string `json:"category" title:"Category" enum:"meals,travel"`
	}
	told := Expense{Cents: 1250}
	handler := func(ctx context.Context) (protocol.Result, error) {
		var known []string
		if told.Cents != 0 {
			known = append(known, "cents")
		}
		missing, err := roundtrip.NewQuestion[Expense]("missing", roundtrip.OmitFields(known...))
		if err != nil {
			return nil, err
		}
		expense, err := missing.Ask(ctx, "Which category?")
		if err != nil {
			return nil, err
		}
		if told.Cents != 0 {
			expense.Cents = told.Cents
		}
		return done(fmt.Sprintf("%d cents, %s", expense.Cents, expense.Category))
	}
	play(handler, map[string]string{"missing": `{"action":"accept","content":{"category":"meals"}}`})
	// Output:
	// asked: Which category?
	// done: 1250 cents, meals
}
