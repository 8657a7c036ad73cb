package consent_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/consent"
	"github.com/rondo-mcp/rondo/server"
)

var pay = roundtrip.MustQuestion[struct {
	Amount int `json:"amount"`
}]("pay")

// A host records questions and answers, and verifies them later.
func Example() {
	public, private, err := ed25519.GenerateKey(nil) // a host loads its own
	if err != nil {
		log.Fatal(err)
	}
	var table [][]byte
	recorder, err := consent.NewRecorder(&consent.Options{Key: private,
		Sink: func(_ context.Context, record []byte) { table = append(table, record) }})
	if err != nil {
		log.Fatal(err)
	}
	srv, err := server.New(&server.Options{Observer: recorder})
	if err != nil {
		log.Fatal(err)
	}
	server.AddTool(srv, server.Tool{Name: "pay"}, func(ctx context.Context, _ *server.ToolCall,
		_ struct{}) (protocol.CallToolOutcome, error) {
		_, err := pay.Ask(ctx, "How much do you want to pay?")
		return server.Text("paid"), err
	})
	callPay(srv)

	// The verifier.
	consents, err := consent.Verify([]ed25519.PublicKey{public}, table...)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range consents {
		a := c.Answer
		paid := a.Matches(a.Salt(private), []byte(`{"amount": 5}`))
		fmt.Printf("%s: %s, by %s; 5: %t\n", c.Question.Message, a.Decision, a.Way, paid)
	}
	table[0][40] ^= 1
	_, err = consent.Verify([]ed25519.PublicKey{public}, table...)
	fmt.Println(err)
	// Output:
	// How much do you want to pay?: accepted, by form; 5: true
	// consent: records[0]: not a record signed with one of the keys
}

// callPay calls the tool for a user who pays 5.
func callPay(srv *server.Server) {
	c, err := client.New(srv, &client.Options{ElicitForm: func(context.Context,
		*client.FormQuestion) (*protocol.ElicitResult, error) {
		return client.Accept(map[string]int{"amount": 5})
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err = c.CallTool(context.Background(), "pay", struct{}{}); err != nil {
		log.Fatal(err)
	}
}
