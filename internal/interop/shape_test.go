package interop_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// A shape is a server as its author wrote it, before there was rondo, with one thing about it that
// makes it hard to retrofit. Its handlers push their questions with the SDK's own methods. The
// tests of a shape serve it twice: bare, with the SDK alone, and with the adapter in front, as the
// adapter's page says.
type shape struct {
	// serve returns the server's handler. It may be called for several sites.
	serve func(t *testing.T, s *site) http.Handler
	// configure changes the HTTP server before it starts; nil: nothing.
	configure func(*httptest.Server)
	// alone is the text of the result where the client cannot be asked; empty: an error.
	alone string
	// sessionless means that clients of older revisions cannot be asked.
	sessionless bool
	// visits means that the second question is a visit.
	visits bool
	// header is sent by all clients.
	header http.Header
	// tokens are those that the server knows, as the bearer of the clients; nil: any.
	tokens []string
}

// shapes are the same shape by the SDK that it is built on.
type shapes map[string]shape

// checkAll checks each.
func checkAll(t *testing.T, all shapes) {
	for name, x := range all {
		t.Run(name, x.check)
	}
}

// A site is where one server of a shape runs, and remembers what it did.
type site struct {
	bare              bool // the SDK alone
	keepsWriteTimeout bool // the author does not lift it
	freshNonces       bool // each round draws a nonce of its own
	keepsSignIn       bool // nobody is asked to sign in who has done so
	logins            *loginPage
	revision          string

	mu      sync.Mutex
	acts    map[string]int // by name
	running int
	idle    chan struct{} // closed when no handler runs; nil: nobody waits
	hangUps []func()
	ctx     context.Context
	end     context.CancelFunc
}

func newSite(revision string) *site {
	ctx, end := context.WithCancel(context.Background())
	return &site{revision: revision, acts: map[string]int{}, ctx: ctx, end: end}
}

// act is what must not happen without an answer. Like a statement of a database it does not happen
// when the context has ended.
func (s *site) act(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts[name]++
	return nil
}

// enter notes that a handler runs, until the returned function is called. The context ends with the
// site, as those of servers that shut down do: a legacy session of the official Go SDK cannot be
// closed while a handler of it waits for the person.
func (s *site) enter(ctx context.Context) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	return ctx, func() {
		stop()
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running--; s.running == 0 && s.idle != nil {
			close(s.idle)
			s.idle = nil
		}
	}
}

// waitIdle waits until no handler runs.
func (s *site) waitIdle(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	if s.running == 0 {
		s.mu.Unlock()
		return
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
	case <-within(t, patience).Done():
		t.Fatal("a handler goes on")
	}
}

// onHangUp adds what ends the sessions of the server, as their timeout does.
func (s *site) onHangUp(end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangUps = append(s.hangUps, end)
}

// hangUp ends all handlers and sessions.
func (s *site) hangUp() {
	s.end()
	s.mu.Lock()
	ends := s.hangUps
	s.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// wantActs checks that the server has acted once for each name, and for no other.
func (s *site) wantActs(t *testing.T, names ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if s.acts[name] != 1 {
			t.Errorf("the server acted %d times for %s, want 1", s.acts[name], name)
		}
	}
	if len(s.acts) != len(names) {
		t.Errorf("the server acted for %d names, want %d: %v", len(s.acts), len(names), s.acts)
	}
}

// A questioner asks the person a question in the form of the SDK.
type questioner func(ctx context.Context, message string, schema map[string]any) (action string,
	content map[string]any, err error)

// The forms of the two questions.
var (
	partForm = map[string]any{
		"type":       "object",
		"properties": map[string]any{"part": map[string]any{"type": "string"}},
		"required":   []string{"part"},
	}
	sureForm = map[string]any{
		"type":       "object",
		"properties": map[string]any{"sure": map[string]any{"type": "boolean"}},
		"required":   []string{"sure"},
	}
)

// removePart asks two questions, of which the second depends on the answer to the first, and then
// calls remove.
func (s *site) removePart(ctx context.Context, name string, ask questioner,
	remove func(ctx context.Context) error) (string, error) {
	ctx, leave := s.enter(ctx)
	defer leave()
	action, content, err := ask(ctx, "Which part of "+name+"?", partForm)
	if err != nil {
		return "", fmt.Errorf("which part of %s: %w", name, err)
	}
	if action != "accept" {
		return "left " + name + " alone", nil
	}
	action, content, err = ask(ctx, fmt.Sprintf("Remove %v of %s?", content["part"], name),
		sureForm)
	if err != nil {
		return "", fmt.Errorf("whether to remove %s: %w", name, err)
	}
	if action != "accept" || content["sure"] != true {
		return "left " + name + " alone", nil
	}
	if err := remove(ctx); err != nil {
		return "", err
	}
	return "removed a part of " + name, nil
}

// agreeing answers both questions about each name.
func (x shape) agreeing(names ...string) answers {
	all := answers{}
	for _, name := range names {
		all["Which part of "+name+"?"] = `{"part":"drafts"}`
		all["Remove drafts of "+name+"?"] = `{"sure":true}`
		if x.visits {
			all["Remove drafts of "+name+"?"] = "{}"
		}
	}
	return all
}

// removal is the request that asks two questions about name, and then acts.
func removal(name string) request { return tool("remove", map[string]string{"name": name}) }

// doneText is the text of the result when both questions were accepted, and leftText that when one
// was refused.
func doneText(name string) string { return "removed a part of " + name }
func leftText(name string) string { return "left " + name + " alone" }

// asksIn reports whether clients of a revision can be asked.
func (x shape) asksIn(revision string) bool { return revision == modern || !x.sessionless }

// open serves the shape on loopback until the end of the test.
func (x shape) open(t *testing.T, s *site) (endpoint string) {
	t.Helper()
	server := httptest.NewUnstartedServer(x.serve(t, s))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients hang up
	if x.configure != nil {
		x.configure(server)
	}
	server.Start()
	t.Cleanup(func() {
		s.hangUp()
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/mcp"
}

// dial connects a client with its person to a site, as the bearer of a token.
func (x shape) dial(t *testing.T, make dialerOf, endpoint, revision string, who *person,
	mute bool) (peer, *visit) {
	t.Helper()
	token := "alice"
	if len(x.tokens) > 0 {
		token = x.tokens[0]
	}
	if x.visits {
		who.open = func(ctx context.Context, at string) { openPage(t, ctx, at) }
	}
	v := newVisit(t, token, x.header)
	return make(t, endpoint, revision, v, who, mute), v
}

// check holds a shape against everything that is promised to every server.
func (x shape) check(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		t.Run(revision, func(t *testing.T) {
			for name, dial := range shapeClients() {
				t.Run(name, func(t *testing.T) { x.checkClient(t, dial, revision) })
			}
			t.Run("what does not ask is as without rondo", func(t *testing.T) {
				x.checkPlain(t, revision)
			})
		})
	}
	t.Run("a state of another caller is refused", x.checkTheft)
}

func (x shape) checkClient(t *testing.T, dial dialerOf, revision string) {
	t.Run("accept", func(t *testing.T) { x.checkAccept(t, dial, revision) })
	t.Run("no way to ask", func(t *testing.T) { x.checkMute(t, dial, revision) })
	if !x.asksIn(revision) {
		return
	}
	t.Run("refuse", func(t *testing.T) { x.checkRefusals(t, dial, revision) })
	t.Run("parallel", func(t *testing.T) { x.checkParallel(t, dial, revision) })
	t.Run("cancel", func(t *testing.T) { x.checkAbandoned(t, dial, revision, false) })
	t.Run("disconnect", func(t *testing.T) { x.checkAbandoned(t, dial, revision, true) })
}

func (x shape) checkAccept(t *testing.T, dial dialerOf, revision string) {
	s := newSite(revision)
	who := newPerson(t, x.agreeing("books"))
	c, _ := x.dial(t, dial, x.open(t, s), revision, who, false)
	got, err := c.do(within(t, patience), removal("books"))
	if !x.asksIn(revision) {
		who.wantAsked(0)
		if err != nil || got != x.alone {
			t.Errorf("got %q, %v, want %q", got, err, x.alone)
		}
		s.wantActs(t)
		return
	}
	if want := doneText("books"); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	who.wantAsked(1)
	s.wantActs(t, "books")
}

func (x shape) checkRefusals(t *testing.T, dial dialerOf, revision string) {
	s := newSite(revision)
	endpoint := x.open(t, s)
	const which, whether, drafts = "Which part of books?", "Remove drafts of books?",
		`{"part":"drafts"}`
	for name, given := range map[string]answers{
		"first declined":   {which: "decline"},
		"first cancelled":  {which: "cancel"},
		"second declined":  {which: drafts, whether: "decline"},
		"second cancelled": {which: drafts, whether: "cancel"},
	} {
		who := newPerson(t, given)
		c, _ := x.dial(t, dial, endpoint, revision, who, false)
		got, err := c.do(within(t, patience), removal("books"))
		if want := leftText("books"); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
		who.wantAsked(1)
	}
	s.wantActs(t)
}

// A client that cannot be asked gets the same outcome from both servers in a session, where the
// handler sees the SDK's own error. Nothing is done for it in either era.
func (x shape) checkMute(t *testing.T, dial dialerOf, revision string) {
	var texts [2]string
	for i, bare := range []bool{false, true} {
		s := newSite(revision)
		s.bare = bare
		c, _ := x.dial(t, dial, x.open(t, s), revision, newPerson(t, nil), true)
		got, err := c.do(within(t, patience), removal("books"))
		if err != nil {
			got = "error of the request: " + err.Error()
		}
		texts[i] = got
		if !bare && x.alone != "" && got != x.alone {
			t.Errorf("got %q, want %q", got, x.alone)
		}
		s.wantActs(t)
		if strings.Contains(got, "removed") {
			t.Errorf("got %q", got)
		}
	}
	if revision != modern && texts[0] != texts[1] {
		t.Errorf("got %q, and %q from the SDK alone", texts[0], texts[1])
	}
}

// checkParallel makes 25 calls at once, with two questions each.
func (x shape) checkParallel(t *testing.T, dial dialerOf, revision string) {
	const calls = 25
	var names []string
	for i := range calls {
		names = append(names, fmt.Sprint("book-", i))
	}
	s := newSite(revision)
	who := newPerson(t, x.agreeing(names...))
	c, _ := x.dial(t, dial, x.open(t, s), revision, who, false)
	ctx := within(t, patience)
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			got, err := c.do(ctx, removal(name))
			if want := doneText(name); err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	all.Wait()
	who.wantAsked(1)
	s.wantActs(t, names...)
}

// checkAbandoned ends a call while the person looks at the second question.
func (x shape) checkAbandoned(t *testing.T, dial dialerOf, revision string, disconnect bool) {
	s := newSite(revision)
	who := newPerson(t, x.agreeing("books"))
	looks, over := make(chan struct{}), make(chan struct{})
	who.before = func(ctx context.Context, question string) {
		if question == "Remove drafts of books?" {
			close(looks)
			select {
			case <-over:
			case <-ctx.Done():
			}
		}
	}
	c, v := x.dial(t, dial, x.open(t, s), revision, who, false)
	ctx, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.do(ctx, removal("books"))
		ended <- err
	}()
	select {
	case <-looks:
	case err := <-ended:
		t.Fatalf("the call ended before the second question: %v", err)
	}
	if disconnect {
		v.disconnect()
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call went on")
	}
	if _, sendsNone := c.(mcpGo); !disconnect && revision != modern && !sendsNone {
		// The answer of the person must not overtake the cancellation.
		select {
		case <-v.cancelled:
		case <-within(t, patience).Done():
			t.Error("the client has sent no cancellation")
		}
	}
	close(over) // the person accepts, too late
	v.disconnect()
	s.hangUp()
	s.waitIdle(t)
	s.wantActs(t)
}

// checkTheft presents a state of one caller with the token of another.
func (x shape) checkTheft(t *testing.T) {
	tokens := []string{"alice", "bob"}
	if len(x.tokens) > 0 {
		tokens = x.tokens
	}
	s := newSite(modern)
	endpoint := x.open(t, s)
	alice := newRaw(t, endpoint, modern, tokens[0], x.header)
	bob := newRaw(t, endpoint, modern, tokens[1], x.header)
	nobody := newRaw(t, endpoint, modern, "", x.header)
	r, given := removal("books"), x.agreeing("books")
	first := alice.do(r, nil, nil)
	second := alice.do(r, &first, given)
	for _, reply := range []rawReply{first, second} {
		for name, thief := range map[string]*raw{"bob": bob, "nobody": nobody} {
			got := thief.do(r, &reply, given)
			if got.status == http.StatusUnauthorized && name == "nobody" {
				continue
			}
			if got.code != protocol.CodeInvalidParams || got.asks() {
				t.Fatalf("%s got %d %.300s", name, got.status, got.body)
			}
		}
	}
	s.wantActs(t)
	if last := alice.do(r, &second, given); last.asks() || last.code != 0 {
		t.Errorf("got %s", last.body)
	}
	s.wantActs(t, "books")
}

// checkPlain compares what the two servers answer to requests that ask nothing.
func (x shape) checkPlain(t *testing.T, revision string) {
	var replies [2][]rawReply
	for i, bare := range []bool{false, true} {
		s := newSite(revision)
		s.bare = bare
		c := newRaw(t, x.open(t, s), revision, "alice", x.header)
		if len(x.tokens) > 0 {
			c.token = x.tokens[0]
		}
		replies[i] = append(replies[i], c.opened)
		for _, r := range plainRequests() {
			replies[i] = append(replies[i], c.send(r.method, r.params))
		}
	}
	for i, ours := range replies[0] {
		name := "the opening"
		if i > 0 {
			name = fmt.Sprint(plainRequests()[i-1])
		}
		theirs := replies[1][i]
		if ours.status != theirs.status || ours.body != theirs.body ||
			ours.contentType != theirs.contentType {
			t.Errorf("%s: got %d %s %s, and from the SDK alone %d %s %s", name, ours.status,
				ours.contentType, ours.body, theirs.status, theirs.contentType, theirs.body)
		}
	}
}
