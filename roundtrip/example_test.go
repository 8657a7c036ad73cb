package roundtrip_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// play is a small client: it makes a call, answers questions from a list, and prints what happens.
func play(handler roundtrip.Handler, answers map[string]string) {
	playAs(protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		Sampling:    &protocol.SamplingCapability{},
	}, handler, answers)
}

func playAs(capabilities protocol.ClientCapabilities, handler roundtrip.Handler,
	answers map[string]string) {
	// The user of the examples is a program that answers at once.
	funnel, err := roundtrip.NewFunnel(&roundtrip.Options{MinHumanTime: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := roundtrip.Call{
		Version: protocol.V20260728, Method: protocol.MethodCallTool, Target: "deploy",
		Principal: protocol.LocalPrincipal(), Capabilities: capabilities,
	}
	for {
		result, err := funnel.Do(context.Background(), call, handler)
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
		asked, ok := result.(*protocol.InputRequiredResult)
		if !ok {
			fmt.Println("done:",
				result.(*protocol.CallToolResult).Content[0].(*protocol.TextContent).Text)
			return
		}
		call.State, call.Responses = asked.RequestState, nil
		for _, q := range asked.InputRequests {
			switch request := q.Request.(type) {
			case *protocol.ElicitForm:
				fmt.Println("asked:", request.Message)
			case *protocol.ElicitURL:
				fmt.Println("asked:", request.Message, request.URL)
			case *protocol.CreateMessage:
				fmt.Println("asked the model")
			case *protocol.ListRoots:
				fmt.Println("asked for the folders")
			}
			call.Responses = append(call.Responses,
				protocol.KeyedResponse{Key: q.Key, Result: json.RawMessage(answers[q.Key])})
		}
	}
}

func done(text string) (protocol.Result, error) {
	return &protocol.CallToolResult{Content: []protocol.Content{&protocol.TextContent{Text: text}}},
		nil
}

// A handler returns its questions. With the answers it runs again.
func ExampleInputRequired() {
	type Size struct {
		Gigabytes int `json:"gigabytes" minimum:"1"`
	}
	handler := func(ctx context.Context) (protocol.Result, error) {
		size, ok := roundtrip.AcceptedContent[Size](ctx, "size")
		if !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[Size]("size", "How large?")), nil
		}
		return done(fmt.Sprintf("a database of %d GB", size.Gigabytes))
	}
	play(handler, map[string]string{"size": `{"action":"accept","content":{"gigabytes":20}}`})
	// Output:
	// asked: How large?
	// done: a database of 20 GB
}

// A question declared once keeps key and form together, and is checked at startup.
func ExampleMustQuestion() {
	type Reason struct {
		Reason string `json:"reason" jsonschema:"why now?"`
	}
	confirm := roundtrip.MustQuestion[Reason]("confirm")

	handler := func(ctx context.Context) (protocol.Result, error) {
		switch answer := confirm.Answer(ctx); answer.Outcome {
		case roundtrip.Accepted:
			return done("deployed: " + answer.Content.Reason)
		case roundtrip.Declined, roundtrip.Cancelled:
			return done("left prod alone")
		default:
			return roundtrip.InputRequired(confirm.Elicit("Deploy to prod?")), nil
		}
	}
	play(handler, map[string]string{"confirm": `{"action":"accept","content":{"reason":"hotfix"}}`})
	play(handler, map[string]string{"confirm": `{"action":"decline"}`})
	// Output:
	// asked: Deploy to prod?
	// done: deployed: hotfix
	// asked: Deploy to prod?
	// done: left prod alone
}

// Questions may be asked together. They are shown in this order.
func ExampleElicit() {
	type Name struct {
		Name string `json:"name"`
	}
	type Plan struct {
		Plan string `json:"plan" enum:"free,paid" default:"free"`
	}
	handler := func(ctx context.Context) (protocol.Result, error) {
		name, named := roundtrip.AcceptedContent[Name](ctx, "name")
		plan, planned := roundtrip.AcceptedContent[Plan](ctx, "plan")
		if !named || !planned {
			return roundtrip.InputRequired(
				roundtrip.Elicit[Name]("name", "Your name?"),
				roundtrip.Elicit[Plan]("plan", "Which plan?"),
			), nil
		}
		return done(name.Name + " has the " + plan.Plan + " plan")
	}
	play(handler, map[string]string{
		"name": `{"action":"accept","content":{"name":"Ada"}}`,
		"plan": `{"action":"accept"}`, // the default
	})
	// Output:
	// asked: Your name?
	// asked: Which plan?
	// done: Ada has the free plan
}

// Answer distinguishes five cases. An invalid answer names the faulty field; usually one asks
// again.
func ExampleAnswer() {
	type Age struct {
		Years int `json:"years" minimum:"0" maximum:"150"`
	}
	handler := func(ctx context.Context) (protocol.Result, error) {
		answer := roundtrip.Answer[Age](ctx, "age")
		switch answer.Outcome {
		case roundtrip.Missing:
			return roundtrip.InputRequired(roundtrip.Elicit[Age]("age", "How old?")), nil
		case roundtrip.Invalid:
			return done(answer.Err.Error())
		}
		return done(answer.Outcome.String())
	}
	play(handler, map[string]string{"age": `{"action":"accept","content":{"years":200}}`})
	play(handler, map[string]string{"age": `{"action":"cancel"}`})
	// Output:
	// asked: How old?
	// done: form: field "years": must be at most 150
	// asked: How old?
	// done: cancelled
}

// A guard that only checks for consent does not nag: a refused question is not repeated.
func ExampleAcceptedContent() {
	type Consent struct {
		Sure bool `json:"sure"`
	}
	handler := func(ctx context.Context) (protocol.Result, error) {
		if consent, ok := roundtrip.AcceptedContent[Consent](ctx, "wipe"); !ok || !consent.Sure {
			return roundtrip.InputRequired(roundtrip.Elicit[Consent]("wipe",
				"Delete everything?")), nil
		}
		return done("deleted")
	}
	play(handler, map[string]string{"wipe": `{"action":"decline"}`})
	// Output:
	// asked: Delete everything?
	// done: declined: wipe; the person does not want this: do not call again unless they ask for it
}

// State is the author's own, sealed beside the answers. It replaces the previous state.
func ExampleWithState() {
	type Quote struct {
		Cents int `json:"cents"`
	}
	type Consent struct{}
	handler := func(ctx context.Context) (protocol.Result, error) {
		quote, ok := roundtrip.State[Quote](ctx)
		if !ok {
			quote = Quote{Cents: 1999} // from somebody whose price may change
		}
		if _, ok := roundtrip.AcceptedContent[Consent](ctx, "buy"); !ok {
			return roundtrip.InputRequired(
				roundtrip.Elicit[Consent]("buy", fmt.Sprintf("Buy for %d cents?", quote.Cents)),
				roundtrip.WithState(quote),
			), nil
		}
		return done(fmt.Sprintf("bought for %d cents", quote.Cents))
	}
	play(handler, map[string]string{"buy": `{"action":"accept"}`})
	// Output:
	// asked: Buy for 1999 cents?
	// done: bought for 1999 cents
}

// Data that must not pass through the client goes to a web page. Agreement does not prove that the
// visit succeeded: look it up.
func ExampleElicitURL() {
	signedIn := func() bool { return true } // asks the program's own session store
	handler := func(ctx context.Context) (protocol.Result, error) {
		if roundtrip.Visited(ctx, "login") != roundtrip.Accepted {
			return roundtrip.InputRequired(roundtrip.ElicitURL("login", "Please sign in:",
				"https://id.example/login")), nil
		}
		if !signedIn() {
			return done("not signed in")
		}
		return done("signed in")
	}
	play(handler, map[string]string{"login": `{"action":"accept"}`})
	// Output:
	// asked: Please sign in: https://id.example/login
	// done: signed in
}

// ElicitSchema takes a schema known only at run time.
func ExampleElicitSchema() {
	schema := json.RawMessage(`{"type":"object","properties":{"seats":{"type":"integer","minimum":1}},"required":["seats"]}`)
	handler := func(ctx context.Context) (protocol.Result, error) {
		answer := roundtrip.RawAnswer(ctx, "seats")
		if answer.Outcome != roundtrip.Accepted {
			return roundtrip.InputRequired(
				roundtrip.ElicitSchema("seats", "How many?", schema)), nil
		}
		return done(string(answer.Content))
	}
	play(handler, map[string]string{"seats": `{"action":"accept","content":{"seats":2.0}}`})
	// Output:
	// asked: How many?
	// done: {"seats":2}
}

// The schema of a form, to view or test.
func ExampleForm() {
	schema, err := roundtrip.Form[struct {
		Region string  `json:"region" enum:"eu,us" enumTitles:"Europe,America"`
		Email  *string `json:"email" format:"email"`
	}]()
	fmt.Println(string(schema), err)

	_, err = roundtrip.Form[struct {
		Tags map[string]string `json:"tags"`
	}]()
	fmt.Println(err != nil)
	// Output:
	// {"type":"object","properties":{"region":{"type":"string","oneOf":[{"const":"eu","title":"Europe"},{"const":"us","title":"America"}]},"email":{"type":"string","format":"email"}},"required":["region"]} <nil>
	// true
}

// A host hands each arrival of a request to its funnel: the first leg, and the retry.
func ExampleFunnel_Do() {
	funnel, err := roundtrip.NewFunnel(&roundtrip.Options{Audience: "https://mcp.example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	type Consent struct{}
	handler := func(ctx context.Context) (protocol.Result, error) {
		if _, ok := roundtrip.AcceptedContent[Consent](ctx, "ok"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[Consent]("ok", "Go ahead?")), nil
		}
		return done(fmt.Sprint("went ahead in round ", roundtrip.RoundOf(ctx).Number))
	}
	call := roundtrip.Call{
		Version:   protocol.V20260728,
		Method:    protocol.MethodCallTool,
		Target:    "deploy",
		Arguments: json.RawMessage(`{"env":"prod"}`),
		Principal: protocol.Principal{Issuer: "https://issuer.example", Subject: "ada"},
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}},
	}
	first, err := funnel.Do(context.Background(), call, handler)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%T\n", first)

	retry := call
	retry.State = first.(*protocol.InputRequiredResult).RequestState
	retry.Responses = protocol.InputResponses{
		{Key: "ok", Result: json.RawMessage(`{"action":"accept"}`)}}
	second, err := funnel.Do(context.Background(), retry, handler)
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := protocol.EncodeResult(call.Version, call.Method, second)
	fmt.Println(string(data), err)

	// The state is useless to anybody else.
	retry.Principal.Subject = "mallory"
	_, err = funnel.Do(context.Background(), retry, handler)
	fmt.Println(err)
	// Output:
	// *protocol.InputRequiredResult
	// {"resultType":"complete","content":[{"type":"text","text":"went ahead in round 2"}]} <nil>
	// Invalid or expired requestState (code -32602)
}

// Every replica of a fleet gets the same variable. The first key seals.
func ExampleKeyringFromEnv() {
	// Made by, for example: openssl rand -base64 32
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{42}, 32))
	os.Setenv("EXAMPLE_STATE_KEYS", "2026-10:"+secret)
	defer os.Unsetenv("EXAMPLE_STATE_KEYS")

	ring, err := keys.KeyringFromEnv(os.LookupEnv, "EXAMPLE_STATE_KEYS")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = roundtrip.NewFunnel(
		&roundtrip.Options{Sealer: ring,
			Audience: "https://mcp.example"})
	fmt.Println(ring, err)

	_, err = keys.KeyringFromEnv(os.LookupEnv, "EXAMPLE_OTHER_KEYS")
	fmt.Println(err)
	// Output:
	// seal.Keyring(ids=2026-10, secrets redacted) <nil>
	// keyring: environment variable EXAMPLE_OTHER_KEYS is not set
}
