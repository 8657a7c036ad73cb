package roundtriptest_test

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type transfer struct {
	To string `json:"to"`
}

type pin struct {
	Amount int      `json:"amount" minimum:"1"`
	Sure   bool     `json:"sure"`
	Labels []string `json:"labels" enum:"rent,food,fun"`
}

type reason struct {
	Reason string `json:"reason" minLength:"3"`
}

func move(ctx context.Context, _ *server.ToolCall, in transfer) (protocol.CallToolOutcome, error) {
	how, err := roundtrip.Ask[pin](ctx, "pin", "How much to "+in.To+"?")
	if err != nil {
		return nil, err
	}
	why, err := roundtrip.Ask[reason](ctx, "reason", "Why to "+in.To+"?")
	if err != nil {
		return nil, err
	}
	return server.Text(time.Duration(how.Amount).String() + " moved: " + why.Reason), nil
}

var sure = roundtrip.MustQuestion[reason]("sure")

// The tool closing answers a decline with a result and an effect.
func closing(effects *roundtriptest.Effects) func(context.Context, *server.ToolCall,
	transfer) (protocol.CallToolOutcome, error) {
	return func(ctx context.Context, _ *server.ToolCall, in transfer) (
		protocol.CallToolOutcome, error) {
		switch why := sure.Answer(ctx); why.Outcome {
		case roundtrip.Accepted:
			effects.Mark("closed")
			return server.Text("closed: " + why.Content.Reason), nil
		case roundtrip.Declined:
			effects.Mark("kept")
			return server.Text("kept " + in.To), nil
		}
		return roundtrip.InputRequired(sure.Elicit("Close " + in.To + "?")), nil
	}
}

// bank is a subject of two users whose server has a page, wrapped by through.
func bank(t *testing.T, through func(*visit.Questions) roundtrip.QuestionPage) roundtriptest.Subject {
	t.Helper()
	mux, effects := http.NewServeMux(), &roundtriptest.Effects{}
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	who := func(r *http.Request) protocol.Principal {
		return protocol.Principal{Issuer: "https://id.example", Subject: "user" +
			r.Header.Get("X-User")}
	}
	page, err := visit.NewQuestions(web.URL+"/page", &visit.QuestionOptions{Options: visit.Options{
		Visitor: func(_ http.ResponseWriter, r *http.Request) (protocol.Principal, bool) {
			return who(r), true
		}}})
	noError(t, err)
	mux.Handle("/page", page)
	connect := func(t testing.TB, user string) protocol.Peer {
		srv, err := server.New(&server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1,
			Page: through(page)}})
		noError(t, err)
		server.AddTool(srv, server.Tool{Name: "move"}, move)
		server.AddTool(srv, server.Tool{Name: "close"}, closing(effects))
		web := httptest.NewServer(servertest.NewHandler(t, srv, &serverhttp.Options{
			Authenticate: func(r *http.Request) (protocol.Principal, error) { return who(r), nil }}))
		t.Cleanup(func() { web.Close(); _ = srv.Close() })
		peer, err := clienthttp.New(web.URL,
			&clienthttp.Options{Header: http.Header{"X-User": {user}}})
		noError(t, err)
		return peer
	}
	browser := func(user string) *http.Client { return &http.Client{Transport: as(user)} }
	return roundtriptest.Subject{Connect: connect, TwoUsers: true, Browser: browser,
		Effects: effects}
}

type as string

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", string(a))
	return http.DefaultTransport.RoundTrip(r)
}

func isPage(p *visit.Questions) roundtrip.QuestionPage { return p }

var (
	moved = roundtriptest.Flow{
		Name:    "moved",
		Request: roundtriptest.Tool("move", transfer{"Ada"}),
		Answers: roundtriptest.Answers{
			"pin": roundtriptest.Accept(map[string]any{"amount": 0, "sure": true}).Then(
				roundtriptest.Accept(pin{5, true, []string{"rent", "fun"}})),
			"reason": roundtriptest.Accept(reason{"as agreed"}),
		},
		Want: "5ns moved: as agreed",
	}
	declined = roundtriptest.Flow{
		Name:    "declined",
		Request: roundtriptest.Tool("move", transfer{"Bob"}),
		Answers: roundtriptest.Answers{"pin": roundtriptest.Decline()},
		Fails:   "declined: pin",
	}
	closed = roundtriptest.Flow{
		Name:    "closed",
		Request: roundtriptest.Tool("close", transfer{"Ada"}),
		Answers: roundtriptest.Answers{"sure": roundtriptest.Accept(reason{"left"})},
		Want:    "closed: left",
	}
)

// TestLinks: flows on the page match those with forms, and links yield no other question's answer.
func TestLinks(t *testing.T) {
	subject := bank(t, isPage)
	roundtriptest.Run(t, subject, moved, declined)
	roundtriptest.Attack(t, subject, moved)
	roundtriptest.Attack(t, subject, closed)
}

// A loosePage uses an answer, once, for any question that begins alike.
type loosePage struct {
	roundtrip.QuestionPage
	mu    *sync.Mutex
	alike map[string]string // beginnings by id, of unused answers
	lent  map[string]string // ids by those of whom they answer
}

func (p loosePage) OpenQuestion(ctx context.Context, q *roundtrip.PageQuestion) (
	*roundtrip.PageReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reply, err := p.QuestionPage.OpenQuestion(ctx, q)
	p.alike[reply.ID] = q.Message[:3]
	return reply, err
}

func (p loosePage) FindQuestion(ctx context.Context, who protocol.Principal, id string) (
	*roundtrip.PageReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reply, err := p.QuestionPage.FindQuestion(ctx, who, id)
	if err != nil || reply.Answer != nil {
		delete(p.alike, id)
		return reply, err
	}
	for other, beginning := range p.alike {
		lends, err := p.QuestionPage.FindQuestion(ctx, who, other)
		if beginning == p.alike[id] && err == nil && lends.Answer != nil {
			p.lent[id] = other
			delete(p.alike, other)
		}
	}
	if other := p.lent[id]; other != "" {
		lends, err := p.QuestionPage.FindQuestion(ctx, who, other)
		reply.Answer = lends.Answer
		return reply, err
	}
	return reply, nil
}

func (p loosePage) TakeAnswer(ctx context.Context, who protocol.Principal, id string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.QuestionPage.TakeAnswer(ctx, who, cmp.Or(p.lent[id], id))
}

// TestLoosePage: the kit finds a page whose answers work for other calls.
func TestLoosePage(t *testing.T) {
	mu, alike, lent := &sync.Mutex{}, map[string]string{}, map[string]string{}
	subject := bank(t, func(p *visit.Questions) roundtrip.QuestionPage {
		return loosePage{p, mu, alike, lent}
	})
	problems, why := roundtriptest.RunAttack(t, subject, moved, "page")
	if len(problems) != 1 || why != "" ||
		!strings.Contains(problems[0].Error(), "an answer for other arguments: got 5ns moved") {
		t.Errorf("%v %s", problems, why)
	}
}

// An eagerPage accepts a declined question.
type eagerPage struct{ roundtrip.QuestionPage }

func (p eagerPage) FindQuestion(ctx context.Context, who protocol.Principal, id string) (
	*roundtrip.PageReply, error) {
	reply, err := p.QuestionPage.FindQuestion(ctx, who, id)
	if reply != nil && strings.Contains(string(reply.Answer), "decline") {
		reply.Answer = []byte(`{"action":"accept","content":{"reason":"left"}}`)
	}
	return reply, err
}

// TestEagerPage: the kit finds a page on which a decline does not count, by result and effects.
func TestEagerPage(t *testing.T) {
	subject := bank(t, func(p *visit.Questions) roundtrip.QuestionPage { return eagerPage{p} })
	problems, why := roundtriptest.RunAttack(t, subject, closed, "page")
	const where = "a form that was declined in another tab: "
	if len(problems) != 2 || why != "" ||
		!strings.Contains(problems[0].Error(), where+"got closed: left, want what a decline") ||
		!strings.Contains(problems[1].Error(), where+"these effects happened: closed") {
		t.Errorf("%v %s", problems, why)
	}
}
