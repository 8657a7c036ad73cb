package roundtrip_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Straight-line code: the second question depends on the first answer. The handler runs three
// times, but asks the first question once.
func ExampleAsk() {
	type Region struct {
		Name string `json:"name" enum:"eu,us"`
	}
	type Size struct {
		Gigabytes int `json:"gigabytes" minimum:"1"`
	}
	handler := func(ctx context.Context) (protocol.Result, error) {
		region, err := roundtrip.Ask[Region](ctx, "region", "Which region?")
		if err != nil {
			return nil, err
		}
		size, err := roundtrip.Ask[Size](ctx, "size", "How large, in "+region.Name+"?")
		if err != nil {
			return nil, err
		}
		return done(fmt.Sprintf("%d GB in %s", size.Gigabytes, region.Name))
	}
	play(handler, map[string]string{
		"region": `{"action":"accept","content":{"name":"eu"}}`,
		"size":   `{"action":"accept","content":{"gigabytes":20}}`,
	})
	// Output:
	// asked: Which region?
	// asked: How large, in eu?
	// done: 20 GB in eu
}

// A refusal is an error. A handler may return it, for the funnel to explain, or look at its type.
func ExampleDeclinedError() {
	type Newsletter struct {
		Email string `json:"email" format:"email"`
	}
	handler := func(ctx context.Context) (protocol.Result, error) {
		letter, err := roundtrip.Ask[Newsletter](ctx, "letter", "Where may we write to?")
		if _, no := errors.AsType[*roundtrip.DeclinedError](err); no {
			return done("no newsletter then")
		}
		if err != nil {
			return nil, err
		}
		return done("we write to " + letter.Email)
	}
	play(handler, map[string]string{"letter": `{"action":"decline"}`})
	// Output:
	// asked: Where may we write to?
	// done: no newsletter then
}

// Independent questions are asked in one round: they are returned together, even in flow style.
func ExampleInputRequired_severalAtOnce() {
	type Size struct {
		Gigabytes int `json:"gigabytes" minimum:"1"`
	}
	type Owner struct {
		Email string `json:"email" format:"email"`
	}
	handler := func(ctx context.Context) (protocol.Result, error) {
		size, sized := roundtrip.AcceptedContent[Size](ctx, "size")
		owner, owned := roundtrip.AcceptedContent[Owner](ctx, "owner")
		if read := roundtrip.Visited(ctx, "terms"); !sized || !owned || read != roundtrip.Accepted {
			return roundtrip.InputRequired(
				roundtrip.Elicit[Size]("size", "How large?"),
				roundtrip.Elicit[Owner]("owner", "Whose is it?"),
				roundtrip.ElicitURL("terms", "Read the terms:", "https://example.com/terms")), nil
		}
		return done(fmt.Sprintf("%d GB for %s", size.Gigabytes, owner.Email))
	}
	play(handler, map[string]string{
		"size":  `{"action":"accept","content":{"gigabytes":20}}`,
		"owner": `{"action":"accept","content":{"email":"ada@example.com"}}`,
		"terms": `{"action":"accept"}`,
	})
	// Output:
	// asked: How large?
	// asked: Whose is it?
	// asked: Read the terms: https://example.com/terms
	// done: 20 GB for ada@example.com
}

// All code before a question runs again with its answer. Memo keeps values, such as the accepted
// price.
func ExampleMemo() {
	type Agreement struct {
		Name string `json:"name" title:"Your name"`
	}
	looks := 0
	price := func(context.Context) (int, error) {
		looks++
		return 900 + looks, nil // another price every time
	}
	handler := func(ctx context.Context) (protocol.Result, error) {
		cents, err := roundtrip.Memo(ctx, "price", price)
		if err != nil {
			return nil, err
		}
		agreed, err := roundtrip.Ask[Agreement](ctx, "agree", fmt.Sprintf("Pay %d cents?", cents))
		if err != nil {
			return nil, err
		}
		// the same in every round, for the bank
		key, err := roundtrip.IdempotencyKey(ctx, fmt.Sprint("charge ", cents))
		if err != nil {
			return nil, err
		}
		return done(fmt.Sprintf("%s pays %d cents, key of %d characters", agreed.Name, cents,
			len(key)))
	}
	play(handler, map[string]string{"agree": `{"action":"accept","content":{"name":"Ada"}}`})
	// Output:
	// asked: Pay 901 cents?
	// done: Ada pays 901 cents, key of 43 characters
}

// Effects that must wait for the flow's completion go into OnCommit.
func ExampleOnCommit() {
	type Confirmation struct {
		Reason string `json:"reason"`
	}
	handler := func(ctx context.Context) (protocol.Result, error) {
		err := roundtrip.OnCommit(ctx, func(context.Context) { fmt.Println("mail is sent") })
		if err != nil {
			return nil, err
		}
		confirmed, err := roundtrip.Ask[Confirmation](ctx, "confirm", "Sure?")
		if err != nil {
			return nil, err
		}
		return done("deleted: " + confirmed.Reason)
	}
	play(handler, map[string]string{"confirm": `{"action":"accept","content":{"reason":"obsolete"}}`})
	// Output:
	// asked: Sure?
	// mail is sent
	// done: deleted: obsolete
}
