//go:build redis

package redisstore_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

const (
	sessionHeader = "Mcp-Session-Id"
	userHeader    = "X-User" // as a proxy that has authenticated the caller sets it
)

// A processor sees what passes through the proxy and may change it, as an external processor
// of Envoy does. It has no connection to a client, to an upstream or to other processors.
type processor struct {
	router *elicitation.Router

	mu       sync.Mutex
	sessions map[string]*elicitation.Session
}

func newProcessor(t *testing.T, store elicitation.QuestionStore, ring *keys.Keyring) *processor {
	t.Helper()
	router, err := elicitation.New(&elicitation.Options{
		Store: store, Keys: ring.Derive(elicitation.KeyPurpose),
		Limits: elicitation.Limits{Pending: -1, PerPrincipal: -1, PerUpstream: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &processor{router: router, sessions: make(map[string]*elicitation.Session)}
	t.Cleanup(func() {
		for _, s := range p.sessions {
			s.Detach()
		}
		if n := router.Pending(); n != 0 {
			t.Errorf("%d questions are pending", n)
		}
	})
	return p
}

func senderOf(h http.Header) elicitation.Sender {
	return elicitation.Sender{
		Session: h.Get(sessionHeader),
		Principal: protocol.Principal{
			Issuer: "https://id.example", Subject: h.Get(userHeader),
		},
	}
}

// upstreamOf names the connection upstream that the proxy uses for a session.
func upstreamOf(session string) elicitation.UpstreamKey {
	return elicitation.UpstreamKey("tools/" + session)
}

// onRequest is given the body of a request of the client and returns what the upstream gets,
// nil for nothing.
func (p *processor) onRequest(ctx context.Context, h http.Header, body []byte) ([]byte, error) {
	m, err := protocol.DecodeMessage(body)
	if err != nil {
		return nil, err
	}
	reply, ok := m.(*protocol.Response)
	if !ok {
		return body, nil
	}
	resolved, _, err := p.router.Resolve(ctx, senderOf(h), reply)
	if resolved == nil || err != nil {
		return nil, err
	}
	if want := upstreamOf(h.Get(sessionHeader)); resolved.Upstream != want {
		return nil, fmt.Errorf("the answer is for %q, want %q", resolved.Upstream, want)
	}
	return protocol.AppendMessage(nil, resolved.Response)
}

// beginResponse is called when the response to a request of the client begins. The processor
// sees all of this response and nothing else.
func (p *processor) beginResponse(ctx context.Context, h http.Header) (*elicitation.Call, error) {
	from := senderOf(h)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[from.Session]
	if s == nil {
		var err error
		s, err = p.router.Attach(elicitation.SessionInfo{
			ID: from.Session, Principal: from.Principal, Version: protocol.V20251125,
			Capabilities: protocol.ClientCapabilities{
				Elicitation: &protocol.ElicitationCapability{Form: true},
			},
		})
		if err != nil {
			return nil, err
		}
		p.sessions[from.Session] = s
	}
	origin := elicitation.Origin{Session: s}
	return p.router.Begin(ctx, origin, elicitation.Via{}, upstreamOf(from.Session))
}

// onMessage is given a message of the response and returns what the client gets.
func onMessage(ctx context.Context, call *elicitation.Call, data []byte) ([]byte, error) {
	m, err := protocol.DecodeMessage(data)
	if err != nil {
		return nil, err
	}
	question, ok := m.(*protocol.Request)
	if !ok || question.Method != protocol.MethodElicit {
		return data, nil
	}
	opts := &elicitation.ElicitOptions{UpstreamID: question.ID}
	offered, err := call.Offer(ctx, question.Params, opts, nil)
	if err != nil {
		return nil, err
	}
	offered.ConfirmDelivery()
	return protocol.AppendMessage(nil, offered.Request())
}

// A proxy has each request and each response processed by any of the processors.
type proxy struct {
	t          *testing.T
	upstream   string
	processors []*processor
	dropped    atomic.Int32
}

func (p *proxy) anyProcessor() *processor { return p.processors[rand.IntN(len(p.processors))] }

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		body, err = p.anyProcessor().onRequest(r.Context(), r.Header, body)
	}
	if err != nil {
		p.t.Error(err)
	}
	if body == nil {
		p.dropped.Add(1)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	out, err := http.NewRequestWithContext(r.Context(), http.MethodPost, p.upstream,
		bytes.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return
	}
	out.Header.Set(sessionHeader, r.Header.Get(sessionHeader))
	res, err := http.DefaultClient.Do(out)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer res.Body.Close()
	w.WriteHeader(res.StatusCode)
	if res.StatusCode == http.StatusOK {
		p.passStream(w, r, res.Body)
	}
}

func (p *proxy) passStream(w http.ResponseWriter, r *http.Request, stream io.Reader) {
	call, err := p.anyProcessor().beginResponse(r.Context(), r.Header)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer call.End()
	for data := range events(stream) {
		data, err := onMessage(r.Context(), call, data)
		if err != nil {
			p.t.Error(err)
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", data)
		w.(http.Flusher).Flush()
	}
}

// events returns the messages of a stream.
func events(stream io.Reader) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		lines := bufio.NewScanner(stream)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !yield([]byte(data)) {
				return
			}
		}
	}
}

// An asker is an upstream whose tool asks twice and returns the answers. All its questions
// have the ids 1 and 2, in each session.
type asker struct {
	t       *testing.T
	mu      sync.Mutex
	answers map[string]chan *protocol.Response // by session
	got     atomic.Int32
}

func (a *asker) inbox(session string) chan *protocol.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers[session] == nil {
		a.answers[session] = make(chan *protocol.Response, 10)
	}
	return a.answers[session]
}

const askReason = `{"message":"Why?","requestedSchema":{"type":"object",` +
	`"properties":{"reason":{"type":"string"}}}}`

func (a *asker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := protocol.DecodeMessage(body)
	if err != nil {
		a.t.Error(err)
		return
	}
	inbox := a.inbox(r.Header.Get(sessionHeader))
	request, ok := m.(*protocol.Request)
	if !ok {
		a.got.Add(1)
		inbox <- m.(*protocol.Response)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var all []json.RawMessage
	for id := range int64(2) {
		question := &protocol.Request{ID: protocol.IntID(id + 1), Method: protocol.MethodElicit,
			Params: json.RawMessage(askReason)}
		writeEvent(a.t, w, question)
		reply := <-inbox
		if reply.ID != question.ID {
			a.t.Errorf("an answer has the id %v, want %v", reply.ID, question.ID)
		}
		all = append(all, reply.Result)
	}
	result, _ := json.Marshal(map[string]any{"answers": all})
	writeEvent(a.t, w, &protocol.Response{ID: request.ID, Result: result})
}

func writeEvent(t *testing.T, w http.ResponseWriter, m protocol.Message) {
	data, err := protocol.AppendMessage(nil, m)
	if err != nil {
		t.Error(err)
	}
	fmt.Fprintf(w, "data: %s\n\n", data)
	w.(http.Flusher).Flush()
}

func post(t *testing.T, url, session, user string, m protocol.Message) *http.Response {
	data, err := protocol.AppendMessage(nil, m)
	if err != nil {
		t.Error(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		t.Error(err)
	}
	r.Header.Set(sessionHeader, session)
	r.Header.Set(userHeader, user)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// answer is what the person of one session answers to the nth question.
func answer(session string, n int) string {
	return fmt.Sprintf(`{"action":"accept","content":{"reason":"%s %d"}}`, session, n)
}

// TestForwarders has questions and replies seen by any of three processors, which have
// nothing in common but Redis. Replies of others, and second ones, do not pass.
func TestForwarders(t *testing.T) {
	connect := startRedis(t)
	secret, err := keys.NewKey("k1", []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.NewKeyring(secret)
	if err != nil {
		t.Fatal(err)
	}
	upstream := &asker{t: t, answers: make(map[string]chan *protocol.Response)}
	tools := httptest.NewServer(upstream)
	defer tools.Close()
	between := &proxy{t: t, upstream: tools.URL}
	for range 3 {
		between.processors = append(between.processors,
			newProcessor(t, newQuestionStore(t, connect), ring))
	}
	front := httptest.NewServer(between)
	defer front.Close()
	defer http.DefaultClient.CloseIdleConnections()

	const sessions = 60
	var wg sync.WaitGroup
	began := time.Now()
	for i := range sessions {
		wg.Go(func() {
			user, session := fmt.Sprint("user-", i%2), fmt.Sprint("session-", i)
			res := post(t, front.URL, session, user, &protocol.Request{
				ID: protocol.IntID(9), Method: "tools/call",
				Params: json.RawMessage(`{"name":"ask"}`),
			})
			defer res.Body.Close()
			asked := 0
			for data := range events(res.Body) {
				m, err := protocol.DecodeMessage(data)
				if err != nil {
					t.Error(err)
				}
				question, ok := m.(*protocol.Request)
				if !ok {
					want := fmt.Sprintf(`{"answers":[%s,%s]}`,
						answer(session, 1), answer(session, 2))
					if got := string(m.(*protocol.Response).Result); got != want {
						t.Errorf("%s got %s, want %s", session, got, want)
					}
					return
				}
				asked++
				reply := func(session, user, text string) {
					post(t, front.URL, session, user, &protocol.Response{
						ID: question.ID, Result: json.RawMessage(text)}).Body.Close()
				}
				reply("session-x", user, answer("stranger", 0))
				reply(session, "mallory", answer("mallory", 0))
				reply(session, user, answer(session, asked))
				reply(session, user, answer("again", 0))
			}
			t.Errorf("%s has no result", session)
		})
	}
	wg.Wait()
	t.Logf("%d questions in %v", 2*sessions, time.Since(began))
	if n := upstream.got.Load(); n != 2*sessions {
		t.Errorf("the upstream got %d answers, want %d", n, 2*sessions)
	}
	if n := between.dropped.Load(); n != 3*2*sessions {
		t.Errorf("%d replies were dropped, want %d", n, 3*2*sessions)
	}
}
