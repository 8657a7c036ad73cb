package natsbus_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/protocol"
)

// gatewayVar makes the test binary a gateway: it holds the URLs of NATS.
const gatewayVar = "RONDO_NATSBUS_GATEWAY"

// A command is a line that a gateway reads.
type command struct {
	Do      string // "ask" or "answer"
	N       int    // of the question, or of the attempt to answer
	ID      string // of the question that is answered
	Session string // of the question that is answered
	Reason  string // the answer
}

// A gatewayReport is a line that a gateway writes.
type gatewayReport struct {
	Do      string // "ready", "asked", "refused", "outcome" or "answered"
	N       int    // of the command
	ID      string // of the question asked
	Session string // of the question asked
	Text    string // the content of the outcome, or an error
	Failed  bool   // Text is an error
	Gone    bool   // the owner of the question is gone
	Took    time.Duration
	// Disposition is that of an answer.
	Disposition elicitation.Disposition
}

// gatewayPatience is how long a gateway waits for the answer of another one.
const gatewayPatience = time.Minute

// A gatewayProcess is a router that does what it reads.
type gatewayProcess struct {
	router  *elicitation.Router
	session *elicitation.Session

	mu  sync.Mutex
	out *json.Encoder
}

// serveGateway is the test binary as a gateway, until its standard input ends.
func serveGateway(urls string) error {
	nc, err := nats.Connect(urls, nats.MaxReconnects(-1), nats.DontRandomize(),
		nats.ReconnectWait(100*time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	bus, err := natsbus.New(context.Background(), js, nil)
	if err != nil {
		return err
	}
	defer bus.Close()
	g := &gatewayProcess{out: json.NewEncoder(os.Stdout)}
	g.router, err = elicitation.New(&elicitation.Options{
		Bus: bus, Keys: exampleKeys(), Timeout: 5 * time.Minute,
		MaxPending: -1, MaxPerPrincipal: -1, MaxPerSession: -1, MaxPerUpstream: -1,
	})
	if err != nil {
		return err
	}
	g.session, err = g.router.Attach(elicitation.SessionInfo{
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true},
		},
	})
	if err != nil {
		return err
	}
	g.report(gatewayReport{Do: "ready"})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		switch c.Do {
		case "ask":
			go g.ask(c)
		case "answer":
			go g.answer(c)
		}
	}
	g.session.Detach()
	return lines.Err()
}

func (g *gatewayProcess) report(r gatewayReport) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.out.Encode(r) // fails when the test has ended
}

func (g *gatewayProcess) ask(c command) {
	ctx := context.Background()
	call, err := g.router.Begin(ctx, elicitation.Origin{Session: g.session}, elicitation.Via{}, "")
	var offered *elicitation.Offered
	asked := make(chan struct{})
	if err == nil {
		offered, err = call.Offer(ctx, json.RawMessage(ask), nil, func(o elicitation.Outcome) {
			<-asked
			r := gatewayReport{Do: "outcome", N: c.N}
			if r.Failed = o.Err != nil; r.Failed {
				r.Text = o.Err.Error()
			} else {
				r.Text = string(o.Result.Content)
			}
			g.report(r)
			go call.End()
		})
	}
	if err != nil {
		g.report(gatewayReport{Do: "refused", N: c.N, Text: err.Error(), Failed: true})
		return
	}
	offered.ConfirmDelivery()
	g.report(gatewayReport{Do: "asked", N: c.N, Session: g.session.ID(),
		ID: strings.Trim(offered.Request().ID.String(), `"`)})
	close(asked)
}

func (g *gatewayProcess) answer(c command) {
	ctx, cancel := context.WithTimeout(context.Background(), gatewayPatience)
	defer cancel()
	began := time.Now()
	d, err := g.router.HandleReply(ctx, elicitation.Sender{Session: c.Session}, &protocol.Response{
		ID:     protocol.StringID(c.ID),
		Result: fmt.Appendf(nil, `{"action":"accept","content":{"reason":%q}}`, c.Reason),
	})
	r := gatewayReport{Do: "answered", N: c.N, Disposition: d, Took: time.Since(began)}
	if r.Failed = err != nil; r.Failed {
		r.Text, r.Gone = err.Error(), errors.Is(err, elicitation.ErrOwnerDead)
	}
	g.report(r)
}
