package visit_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

var (
	mute   = host{name: "mute", caps: `{}`}
	agrees = host{name: "link", caps: `{"elicitation":{"url":{}}}`, link: `{"action":"accept"}`} // to links
)

func (h *hall) play(t *testing.T, who host, of string, era protocol.Era) string {
	t.Helper()
	g := &guest{host: who, t: t, of: of, visit: func(link string) { h.browser().enter(link, "prod") }}
	return g.call(h.connect(t), era)
}

// wantLink plays the tool and expects a link.
func (h *hall) wantLink(t *testing.T, who host, of string, era protocol.Era) string {
	t.Helper()
	text := h.play(t, who, of, era)
	link := linkIn.FindString(text)
	if link == "" || !strings.Contains(text, "call again with the same arguments") {
		t.Fatalf("got %q, want a link", text)
	}
	return link
}

func (h *hall) want(t *testing.T, who host, of string, era protocol.Era, want string) {
	t.Helper()
	if got := h.play(t, who, of, era); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func inEras(t *testing.T, test func(t *testing.T, h *hall, era protocol.Era)) {
	for style, handle := range handlers {
		for name, era := range eras {
			t.Run(style+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, openHall(t, "HTTP", handle, nil), era)
			})
		}
	}
}

// TestAModelThatCallsAgainGetsTheSameLink ten times, then a refusal. The user may answer late.
func TestAModelThatCallsAgainGetsTheSameLink(t *testing.T) {
	inEras(t, func(t *testing.T, h *hall, era protocol.Era) {
		link := h.wantLink(t, mute, "", era)
		for range 9 {
			if again := h.wantLink(t, mute, "", era); again != link {
				t.Fatalf("another link: %s, %s", link, again)
			}
		}
		for range 2 {
			text := h.play(t, mute, "", era)
			if linkIn.FindString(text) != link || !strings.Contains(text, "do not call again until") {
				t.Errorf("got %q", text)
			}
		}
		h.browser().enter(link, "prod")
		h.want(t, mute, "", era, "deployed to prod")
		if next := h.wantLink(t, mute, "", era); next == link {
			t.Error("the link of an answer that was used is shown again")
		}
		if n := h.done.Load(); n != 1 {
			t.Errorf("done %d times", n)
		}
	})
}

// TestANewLinkIsShown by a replica that has shown ten others for the same call, and has not seen
// their answers.
func TestANewLinkIsShown(t *testing.T) {
	for style, handle := range handlers {
		for name, era := range eras {
			t.Run(style+"/"+name, func(t *testing.T) {
				shared := store.NewMemoryStateStore(0)
				share := func(o *visit.QuestionOptions) { o.Store, o.Keys = shared, newKeys() }
				h := openHall(t, "HTTP", handle, share)
				other := openReplica(t, "HTTP", handle, share, h.address)
				for range 12 {
					h.browser().enter(h.wantLink(t, mute, "", era), "prod")
					other.want(t, mute, "", era, "deployed to prod")
				}
				if n := other.ways["text"]; n != 12 { // it knows the way from the state alone
					t.Errorf("%d answers by text", n)
				}
			})
		}
	}
}

func TestAnAnswerIsGoodForItsCallAlone(t *testing.T) {
	inEras(t, func(t *testing.T, h *hall, era protocol.Era) {
		link := h.wantLink(t, mute, "a", era)
		h.browser().enter(link, "prod")
		if other := h.wantLink(t, mute, "b", era); other == link {
			t.Error("other arguments have the same link")
		}
		h.header = http.Header{"Authorization": {"bob"}}
		if other := h.wantLink(t, mute, "a", era); other == link {
			t.Error("another person has the same link")
		}
		h.header = nil
		h.want(t, mute, "a", era, "deployed to prod")
	})
}

func TestOneAnswerServesOneOfTwoCallsAtOnce(t *testing.T) {
	inEras(t, func(t *testing.T, h *hall, era protocol.Era) {
		h.browser().enter(h.wantLink(t, mute, "", era), "prod")
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				if text := h.play(t, mute, "", era); text != "deployed to prod" &&
					!linkIn.MatchString(text) {
					t.Errorf("got %q", text)
				}
			})
		}
		calls.Wait()
		if n := h.done.Load(); n != 1 {
			t.Errorf("done %d times with one answer", n)
		}
	})
}

func TestADeclineOnThePageIsThePersons(t *testing.T) {
	inEras(t, func(t *testing.T, h *hall, era protocol.Era) {
		h.browser().enter(h.wantLink(t, mute, "", era), "")
		h.want(t, mute, "", era, "declined")
		h.wantLink(t, mute, "", era)
	})
}

// TestAnonymousCallersGetNoLink, and the operator reads why.
func TestAnonymousCallersGetNoLink(t *testing.T) {
	inEras(t, func(t *testing.T, h *hall, era protocol.Era) {
		h.header = http.Header{"Authorization": {"nobody"}}
		for _, who := range hosts[:len(hosts)-1] {
			if who.leaves || who.form == "" && who.caps == formCaps {
				continue // ends differently
			}
			text := h.play(t, who, "", era)
			if linkIn.MatchString(text) || strings.HasPrefix(text, "deployed") {
				t.Errorf("%s: got %q", who.name, text)
			}
		}
		if h.ways["anonymous"] == 0 {
			t.Error("nothing says that the callers were anonymous")
		}
	})
}

// TestSeveralQuestionsOneAfterTheOther: each call gets one question further, with the earlier
// answers.
func TestSeveralQuestionsOneAfterTheOther(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (
				protocol.CallToolOutcome, error) {
				text := "deployed to"
				for _, key := range []string{"first", "second", "third"} {
					got, err := roundtrip.Ask[choice](ctx, key, "The "+key+" one?")
					if err != nil {
						return nil, err
					}
					text += " " + got.Target
				}
				return server.Text(text), nil
			}, nil)
			for _, target := range []string{"x", "y", "z"} {
				h.browser().enter(h.wantLink(t, mute, "", era), target)
			}
			h.want(t, mute, "", era, "deployed to x y z")
			h.wantLink(t, mute, "", era)
		})
	}
}

// TestSeveralQuestionsAtOnce, of two goroutines: one result has both links, and each question is
// answered once.
func TestSeveralQuestionsAtOnce(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (
				protocol.CallToolOutcome, error) {
				var got [2]choice
				var errs [2]error
				var asks sync.WaitGroup
				for i, key := range []string{"first", "second"} {
					asks.Go(func() {
						got[i], errs[i] = roundtrip.Ask[choice](ctx, key, "The "+key+" one?")
					})
				}
				asks.Wait()
				return server.Text("deployed to " + got[0].Target + " " + got[1].Target),
					errors.Join(errs[:]...)
			}, func(o *visit.QuestionOptions) {
				o.Store, o.Keys = slowStore{store.NewMemoryStateStore(0)}, newKeys()
			})
			for n := range 10 {
				links := linkIn.FindAllString(h.play(t, mute, "", era), -1)
				if len(links) != 2 {
					t.Fatalf("%d links", len(links))
				}
				for _, link := range links {
					h.browser().enter(link, "prod")
				}
				h.want(t, mute, "", era, "deployed to prod prod")
				if done := h.done.Load(); done != int64(n)+1 {
					t.Fatalf("done %d times", done)
				}
			}
		})
	}
}

// A slowStore takes a while, each time another.
type slowStore struct{ store.StateStore }

func (s slowStore) Get(ctx context.Context, id string) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(rand.N(2 * time.Millisecond)):
		return s.StateStore.Get(ctx, id)
	}
}

func TestAnAuthorLimitsTheWays(t *testing.T) {
	both := host{caps: bothCaps, form: `{"action":"accept","content":{"target":"form"}}`,
		link: `{"action":"accept"}`}
	for _, test := range []struct {
		ways  string
		who   host
		wants string
	}{
		{"form", both, "deployed to form"}, {"link", both, "deployed to prod"},
		{"text", both, "call again with the same arguments"}, {"form", mute, "elicitation.form"},
		{"link", mute, "any of the ways"}, {"link text", mute, "call again with the same"},
		{"form", hosts[0], "unseen"}, {"letter", both, "nternal error"},
		{"task", both, "any of the ways"},
	} {
		for style := range handlers {
			for name, era := range eras {
				t.Run(fmt.Sprint(test.ways, " ", test.who.name, "/", style, "/", name),
					func(t *testing.T) {
						t.Parallel()
						var ways []string
						ways = append(ways, strings.Fields(test.ways)...)
						h := openHall(t, "HTTP", limited(style, ways), nil)
						h.want(t, test.who, "", era, test.wants)
					})
			}
		}
	}
}

// The function limited asks in a style, by some ways.
func limited(style string, ways []string) handler {
	var only roundtrip.QuestionOption
	switch len(ways) {
	case 1:
		only = onlyBy(event.Way(ways[0]))
	case 2:
		only = onlyBy(event.Way(ways[0]), event.Way(ways[1]))
	}
	return func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		if style == "flow" {
			got, err := target.Ask(ctx, "Deploy where?", only)
			return server.Text("deployed to " + got.Target), err
		}
		reply := target.Answer(ctx)
		if reply.Outcome == roundtrip.Missing {
			return roundtrip.InputRequired(target.Elicit("Deploy where?", only)), nil
		}
		return server.Text("deployed to " + reply.Content.Target), reply.Err
	}
}

// An optional question does not end the call.
func TestAnOptionalQuestionGoesByNoText(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (
				protocol.CallToolOutcome, error) {
				got, err := target.Ask(ctx, "Deploy where?", roundtrip.IfPossible())
				if errors.As(err, new(*roundtrip.PushError)) {
					return server.Text("deployed to a default"), nil
				}
				return server.Text("deployed to " + got.Target), err
			}, nil)
			h.want(t, mute, "", era, "deployed to a default")
			h.want(t, hosts[9], "", era, "deployed to prod")
		})
	}
}

func TestAStoreThatIsDownShowsNoLink(t *testing.T) {
	for style, handle := range handlers {
		for name, era := range eras {
			t.Run(style+"/"+name, func(t *testing.T) {
				h := openHall(t, "HTTP", handle, func(o *visit.QuestionOptions) {
					o.Store, o.Keys = &keeper{down: errors.New("no connection")}, newKeys()
				})
				text := h.play(t, mute, "", era)
				if linkIn.MatchString(text) || !strings.Contains(text, "cannot reach") {
					t.Errorf("got %q", text)
				}
			})
		}
	}
}

func newKeys() *keys.Keyring { return servertest.NewKeyring("k") }

func onlyBy(ways ...event.Way) roundtrip.QuestionOption { return roundtrip.OnlyBy(ways...) }

// TestATaskShowsTheLink in its status message, and goes on after the answer, or ends if one of two
// is a refusal.
func TestATaskShowsTheLink(t *testing.T) {
	with := maps.Clone(handlers)
	with["two"] = func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		return askAtOnce(askOne(ctx, "a"), askOne(ctx, "b"))
	}
	for style, handle := range with {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			var added *tasks.Tasks
			h := openHall(t, "HTTP", func(ctx context.Context, call *server.ToolCall) (
				protocol.CallToolOutcome, error) {
				if err := roundtrip.BeginTask(ctx); err != nil {
					return nil, err
				}
				return handle(ctx, call)
			}, func(o *visit.QuestionOptions) {
				o.Wake = func(ctx context.Context, key string) error { return added.Wake(ctx, key) }
			})
			var err error
			if added, err = tasks.New(h.server, nil); err != nil {
				t.Fatal(err)
			}
			defer added.Shutdown(context.Background())
			g := &guest{t: t, host: host{
				caps: `{"extensions":{"` + protocol.ExtensionTasks + `":{}}}`}}
			peer := h.connect(t)
			var task struct {
				TaskID, Status, StatusMessage string
				Result                        struct{ Content []struct{ Text string } }
			}
			read := func(method, name, params string) {
				resp := g.send(peer, method, name, params)
				if err := json.Unmarshal(resp.Result, &task); err != nil {
					t.Fatal(err, resp.Error)
				}
			}
			read(protocol.MethodCallTool, "deploy", `"name":"deploy","arguments":{}`)
			await := func(done func() bool) {
				for deadline := time.Now().Add(20 * time.Second); !done(); {
					if time.Now().After(deadline) {
						t.Fatalf("got %+v", task)
					}
					time.Sleep(time.Second) // as pollIntervalMs says
					read(protocol.MethodGetTask, task.TaskID, `"taskId":"`+task.TaskID+`"`)
				}
			}
			await(func() bool { return linkIn.MatchString(task.StatusMessage) })
			if link := linkIn.FindString(task.StatusMessage); style == "two" {
				h.browser().answer(link, "decline", "")
			} else {
				h.browser().enter(link, "prod")
			}
			await(func() bool { return task.Status == "completed" })
			if style != "two" && (h.done.Load() != 1 || h.ways["task"] != 1) {
				t.Errorf("done %d times, by %v", h.done.Load(), h.ways)
			}
		})
	}
}

// A task whose process shuts down while it works with an answer asks again on another replica.
func TestATaskThatIsTakenOverAsksAgain(t *testing.T) {
	t.Parallel()
	pages, saved, runs := store.NewMemoryStateStore(0), store.NewMemoryTaskStore(), atomic.Int64{}
	works, halls, added := make(chan int, 1), [2]*hall{}, [2]*tasks.Tasks{}
	for i, address := 0, ""; i < 2; i, address = i+1, halls[0].address {
		halls[i] = openReplica(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			if err := roundtrip.BeginTask(ctx); err != nil {
				return nil, err
			}
			if err := askOne(ctx, "pay")(); err != nil {
				return nil, err
			}
			if runs.Add(1) == 1 {
				works <- i
				<-ctx.Done()
			}
			return server.Text("done"), ctx.Err()
		}, func(o *visit.QuestionOptions) { o.Store, o.Keys = pages, newKeys() }, address)
		var err error
		added[i], err = tasks.New(halls[i].server, &tasks.Options{Store: saved, Keys: newKeys(),
			Lease: 3 * time.Second, Sweep: time.Second})
		noError(t, err)
		defer added[i].Shutdown(context.Background())
	}
	g := &guest{t: t, host: host{caps: `{"extensions":{"` + protocol.ExtensionTasks + `":{}}}`}}
	var task struct{ TaskID, Status, StatusMessage string }
	read := func(i int, method, name, params string) {
		noError(t, json.Unmarshal(g.send(halls[i].connect(t), method, name, params).Result, &task))
	}
	read(0, protocol.MethodCallTool, "deploy", `"name":"deploy","arguments":{}`)
	links, on := map[string]bool{}, 0
	for deadline := time.Now().Add(30 * time.Second); task.Status != "completed" &&
		time.Now().Before(deadline); time.Sleep(time.Second) {
		select {
		case at := <-works:
			on = 1 - at
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_ = added[at].Shutdown(ended)
		default:
		}
		read(on, protocol.MethodGetTask, task.TaskID, `"taskId":"`+task.TaskID+`"`)
		if link := linkIn.FindString(task.StatusMessage); link != "" && !links[link] {
			links[link] = true
			halls[0].browser().answer(link, "accept", "yes")
		}
	}
	if done := halls[0].done.Load() + halls[1].done.Load(); done != 1 || len(links) != 2 {
		t.Errorf("%+v, done %d times after %d links", task, done, len(links))
	}
}

func (g *guest) send(peer protocol.Peer, method, name, params string) *protocol.Response {
	g.t.Helper()
	ctx := cmp.Or(g.ctx, g.t.Context())
	resp, err := peer.Handle(ctx, g.request(method, name, params), g)
	if err != nil && ctx.Err() != nil {
		return &protocol.Response{Error: protocol.Errorf(0, "the client is gone")}
	}
	noError(g.t, err)
	return resp
}

// request returns a request of revision 2026-07-28.
func (g *guest) request(method, name, params string) *protocol.Request {
	return &protocol.Request{ID: protocol.IntID(g.id.Add(1)), Method: method,
		Mirror: protocol.Mirror{Version: protocol.Latest, Name: name},
		Params: json.RawMessage(`{` + params +
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":` + g.caps +
			`,"io.modelcontextprotocol/clientInfo":{"name":"host","version":"1"}}}`)}
}

// TestAnEmptyYesInNoTimeIsNobodys: an empty form is consent, but not if the host accepts it by
// itself.
func TestAnEmptyYesInNoTimeIsNobodys(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (
				protocol.CallToolOutcome, error) {
				_, err := roundtrip.Ask[struct{}](ctx, "sure", "Deploy?")
				return server.Text("deployed"), err
			}, nil)
			link := h.wantLink(t, hosts[2], "", era)
			if n := h.done.Load(); n != 0 {
				t.Errorf("done %d times", n)
			}
			h.browser().enter(link, "-")
			h.want(t, hosts[2], "", era, "deployed")
		})
		for way, opt := range map[string]roundtrip.QuestionOption{"form": onlyBy("form"),
			"if possible": roundtrip.IfPossible()} { // no other way is left
			t.Run(way+"/"+name, func(t *testing.T) {
				h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (
					protocol.CallToolOutcome, error) {
					_, err := roundtrip.Ask[struct{}](ctx, "sure", "Deploy?", opt)
					return server.Text("deployed"), err
				}, nil)
				h.want(t, hosts[2], "", era, "without showing")
			})
		}
	}
}

type yes struct {
	Yes string `json:"yes" minLength:"1"`
}

// TestAnAnswerIsForItsQuestionAlone: approval of the first file does not cover the second, with the
// same key and form, whether asked by link or by text. Each approval has one effect.
func TestAnAnswerIsForItsQuestionAlone(t *testing.T) {
	for _, who := range []host{mute, agrees} {
		for name, era := range eras {
			t.Run(who.caps+"/"+name, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				var deleted []int
				h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (
					protocol.CallToolOutcome, error) {
					step, _ := roundtrip.State[int](ctx)
					if roundtrip.Answer[yes](ctx, "ok").Outcome == roundtrip.Accepted {
						mu.Lock()
						deleted = append(deleted, step)
						mu.Unlock()
						if step++; step == 2 {
							return server.Text("deployed"), nil
						}
					}
					return roundtrip.InputRequired(roundtrip.Elicit[yes]("ok",
						fmt.Sprintf("Delete file %d?", step)), roundtrip.WithState(step)), nil
				}, nil)
				visits := 0
				g := &guest{host: who, t: t, visit: func(link string) {
					if visits++; visits == 1 { // agrees only to the second
						h.browser().answer(link, "accept", "yes")
					}
				}}
				for range 3 {
					text := g.call(h.connect(t), era)
					if link := linkIn.FindString(text); link != "" && visits == 0 {
						g.visit(link)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				if len(deleted) != 1 || deleted[0] != 0 {
					t.Errorf("after one yes %v were deleted", deleted)
				}
			})
		}
	}
}

// TestAMemoBetweenQuestionsIsKept over all calls of a flow.
func TestAMemoBetweenQuestionsIsKept(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			charges := 0
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (
				protocol.CallToolOutcome, error) {
				if _, err := roundtrip.Ask[yes](ctx, "pay", "Pay?"); err != nil {
					return nil, err
				}
				_, err := roundtrip.Memo(ctx, "charge", func(context.Context) (int, error) {
					charges++
					return charges, nil
				})
				if err != nil {
					return nil, err
				}
				for _, key := range []string{"mail", "more"} {
					if _, err = roundtrip.Ask[yes](ctx, key, key+"?"); err != nil {
						break
					}
				}
				return server.Text("deployed"), err
			}, nil)
			link := h.wantLink(t, mute, "", era)
			for range 3 {
				h.browser().answer(link, "accept", "yes")
				for range 3 {
					text := h.play(t, mute, "", era)
					if link = linkIn.FindString(text); link == "" {
						break
					}
				}
			}
			if charges != 1 || link != "" {
				t.Errorf("charged %d times, and then asked %q", charges, link)
			}
		})
	}
}

type outcome = protocol.CallToolOutcome

func hasYes(ctx context.Context, key string) bool {
	return roundtrip.Answer[yes](ctx, key).Outcome == roundtrip.Accepted
}

// askBack returns a question in guard style, until it is answered.
func askBack(ctx context.Context, key string) outcome {
	if hasYes(ctx, key) {
		return nil
	}
	return roundtrip.InputRequired(roundtrip.Elicit[yes](key, key+"?"))
}

func askOne(ctx context.Context, key string, opts ...roundtrip.QuestionOption) func() error {
	return func() error { _, err := roundtrip.Ask[yes](ctx, key, key+"?", opts...); return err }
}

// askAtOnce calls functions that ask, each on a goroutine.
func askAtOnce(asks ...func() error) (outcome, error) {
	errs := make([]error, len(asks))
	var g sync.WaitGroup
	for i, ask := range asks {
		g.Go(func() { errs[i] = ask() })
	}
	g.Wait()
	return nil, errors.Join(errs...)
}

// TestEachQuestionIsAnsweredOnce for each completed call, whatever the client is asked between, and
// though calls come to two replicas by turns.
func TestEachQuestionIsAnsweredOnce(t *testing.T) {
	type ctx = context.Context
	shows := host{caps: formCaps, form: `{"action":"accept","content":{"yes":"y"}}`}
	roots := host{caps: `{"roots":{}}`, form: `{"roots":[]}`}
	writes := host{caps: `{"sampling":{}}`, form: `{"role":"assistant","model":"m",` +
		`"content":{"type":"text","text":"summary #"}}`} // another each time
	const schema = `{"type":"object","properties":{"yes":{"type":"string"}},"required":["yes"]}`
	for name, test := range map[string]struct {
		who    host
		wants  int64
		handle func(ctx) (outcome, error)
	}{
		"six": {hosts[0], 6, func(c ctx) (_ outcome, err error) {
			for i := 0; i < 6 && err == nil; i++ {
				err = askOne(c, fmt.Sprint(i))()
			}
			return nil, err
		}},
		"beside a message": {writes, 2, func(c ctx) (outcome, error) {
			if err := askOne(c, "pay")(); err != nil {
				return nil, err
			}
			return askAtOnce(askOne(c, "a"), func() error {
				_, err := roundtrip.AskMessage(c, "sum", &protocol.CreateMessage{MaxTokens: 10,
					Messages: []protocol.SamplingMessage{{Role: "user",
						Content: []protocol.Content{&protocol.TextContent{Text: "Sum up"}}}}})
				return err
			})
		}},
		"beside roots, all until all are answered": {roots, 2, func(c ctx) (outcome, error) {
			a := roundtrip.RawAnswer(c, "a")
			if _, listed := roundtrip.Roots(c, "r"); listed && a.Outcome == roundtrip.Accepted {
				return nil, nil
			}
			return cmp.Or(askBack(c, "pay"), outcome(roundtrip.InputRequired(
				roundtrip.ElicitSchema("a", "a?", []byte(schema)), roundtrip.ListRoots("r")))), nil
		}},
		"beside a link, all until all are answered": {agrees, 3, func(c ctx) (outcome, error) {
			if hasYes(c, "a") && hasYes(c, "b") {
				return nil, nil
			}
			a := roundtrip.Elicit[yes]("a", "a?", onlyBy("text"))
			return cmp.Or(askBack(c, "pay"),
				outcome(roundtrip.InputRequired(a, roundtrip.Elicit[yes]("b", "b?")))), nil
		}},
		"two links at once": {agrees, 2, func(c ctx) (outcome, error) {
			return askAtOnce(askOne(c, "a"), func() error {
				time.Sleep(5 * time.Millisecond) // loads something
				return askOne(c, "b")()
			})
		}},
		"a link, then text": {agrees, 2, func(c ctx) (outcome, error) {
			if err := askOne(c, "a")(); err != nil {
				return nil, err
			}
			return nil, askOne(c, "b", onlyBy("text"))()
		}},
		"text, form, text": {shows, 2, func(c ctx) (_ outcome, err error) {
			for i, way := range []event.Way{"text", "form", "text"} {
				if err = askOne(c, fmt.Sprint(i), onlyBy(way))(); err != nil {
					break
				}
			}
			return nil, err
		}},
		"text beside a form, all until all are answered": {shows, 1, func(c ctx) (outcome, error) {
			if hasYes(c, "a") && hasYes(c, "b") {
				return nil, nil
			}
			return roundtrip.InputRequired(roundtrip.Elicit[yes]("a", "a?", onlyBy("text")),
				roundtrip.Elicit[yes]("b", "b?")), nil
		}},
		"pushed at once": {mute, 3, func(c ctx) (outcome, error) {
			push := func(message string) func() error {
				return func() error {
					time.Sleep(rand.N(3 * time.Millisecond))
					_, err := roundtrip.PushRequest(c,
						&protocol.ElicitForm{Message: message, Schema: []byte(schema)})
					return err
				}
			}
			return askAtOnce(push("a?"), push("b?"), push("c?"))
		}},
	} {
		for era, version := range eras {
			if version == protocol.Modern && strings.HasPrefix(name, "pushed") {
				continue
			}
			t.Run(name+"/"+era, func(t *testing.T) {
				t.Parallel()
				handle := func(c ctx, _ *server.ToolCall) (outcome, error) {
					asks, err := test.handle(c)
					return cmp.Or[outcome](asks, server.Text("done")), err
				}
				shared := store.NewMemoryStateStore(0)
				share := func(o *visit.QuestionOptions) { o.Store, o.Keys = shared, newKeys() }
				patient := func(o *roundtrip.Options) { o.HumanTimeout = 5 * time.Second }
				one := openHall(t, "HTTP", handle, share, patient)
				other := openReplica(t, "HTTP", handle, share, one.address, patient)
				var answered, visits atomic.Int64
				enter := func(link string) { answered.Add(1); one.browser().answer(link, "accept", "yes") }
				g := &guest{host: test.who, t: t, visit: func(link string) {
					if visits.Add(1) > 1 {
						enter(link)
						return
					}
					time.AfterFunc(200*time.Millisecond, func() { enter(link) }) // the call waits
				}}
				for calls, done := 0, int64(0); done < 2; calls++ {
					g.form = strings.ReplaceAll(test.who.form, "#", fmt.Sprint(calls))
					text := g.call([]*hall{one, other}[calls%2].connect(t), version)
					for _, link := range linkIn.FindAllString(text, -1) {
						enter(link)
					}
					if text == "done" {
						done++
					}
					if n := answered.Load(); text == "done" && n != done*test.wants || calls > 20 {
						t.Fatalf("%d answers for %d calls: %s", n, done, text)
					}
				}
			})
		}
	}
}

// TestAnswersDoNotOutliveTheirRun: the call's next run asks the client, with other words.
func TestAnswersDoNotOutliveTheirRun(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			answered, run := false, 0
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (_ outcome,
				err error) {
				files, way := 3, event.Way("text")
				if run++; answered {
					files, way = 4, "form"
				}
				words := fmt.Sprintf("Delete %d files?", files)
				_, err = roundtrip.Ask[yes](ctx, "ok", words, onlyBy(way))
				return server.Text("deleted"), err
			}, nil)
			h.browser().answer(h.wantLink(t, hosts[0], "", era), "accept", "yes")
			answered = true
			h.want(t, hosts[0], "", era, "unseen") // to 4 files nobody has agreed
		})
	}
}

// A heldStore answers contexts with its key when goOn is closed.
type heldStore struct {
	store.StateStore
	begun, goOn chan struct{}
}

func (s heldStore) hold(ctx context.Context) error {
	if ctx.Value(heldStore{}) != nil {
		s.begun <- struct{}{}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.goOn:
		}
	}
	return nil
}

func (s heldStore) Get(ctx context.Context, id string) ([]byte, error) {
	if err := s.hold(ctx); err != nil {
		return nil, err
	}
	return s.StateStore.Get(ctx, id)
}

func (s heldStore) Put(ctx context.Context, id, owner string, state []byte, until time.Time) error {
	if err := s.hold(ctx); err != nil {
		return err
	}
	return s.StateStore.Put(ctx, id, owner, state, until)
}

func openHeldHall(t *testing.T, handle func(context.Context, heldStore) (outcome, error)) *hall {
	held := heldStore{store.NewMemoryStateStore(0), make(chan struct{}, 99), make(chan struct{})}
	return openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		return handle(ctx, held)
	}, func(o *visit.QuestionOptions) { o.Store, o.Keys = held, newKeys() })
}

// TestAGoroutineLeftBehindAsksNothing: the page opens its question when the run is over.
func TestAGoroutineLeftBehindAsksNothing(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			left, first := make(chan error, 1), true
			h := openHeldHall(t, func(ctx context.Context, held heldStore) (outcome, error) {
				if err := askOne(ctx, "before")(); err != nil {
					return nil, err
				}
				if first {
					first = false
					go func() { left <- askOne(context.WithValue(ctx, heldStore{}, 1), "second")() }()
					<-held.begun
					err := askOne(ctx, "first")()
					time.AfterFunc(50*time.Millisecond, func() { close(held.goOn) })
					return nil, err
				}
				for _, key := range []string{"first", "second"} {
					if err := askOne(ctx, key)(); err != nil {
						return nil, err
					}
				}
				return server.Text("done"), nil
			})
			for range 3 {
				h.browser().answer(h.wantLink(t, mute, "", era), "accept", "yes")
			}
			h.want(t, mute, "", era, "done")
			if err := <-left; err == nil {
				t.Error("it got an answer")
			}
		})
	}
}

// TestAStuckStoreHoldsUpNoRun that has ended, nor one that withdraws its question.
func TestAStuckStoreHoldsUpNoRun(t *testing.T) {
	for wants, handle := range map[string]func(context.Context, heldStore) (outcome, error){
		"nternal error": func(ctx context.Context, held heldStore) (outcome, error) {
			return askAtOnce(askOne(context.WithValue(ctx, heldStore{}, 1), "first"), func() error {
				<-held.begun
				return askOne(ctx, "")() // a mistake
			})
		},
		"went on": func(ctx context.Context, held heldStore) (outcome, error) {
			own, withdraw := context.WithCancel(context.WithValue(ctx, heldStore{}, 1))
			go func() { <-held.begun; withdraw() }()
			_, err := roundtrip.PushRequest(own, &protocol.ElicitForm{Message: "Sure?",
				Schema: []byte(`{"type":"object","properties":{}}`)})
			return server.Text(fmt.Sprintf("went on after %v", err)), nil
		},
	} {
		for name, era := range eras {
			t.Run(wants+"/"+name, func(t *testing.T) {
				openHeldHall(t, handle).want(t, mute, "", era, wants)
			})
		}
	}
}

// A countedStore counts stored rows.
type countedStore struct {
	store.StateStore
	puts atomic.Int64
}

func (s *countedStore) Put(ctx context.Context, id, owner string, state []byte,
	until time.Time) error {
	defer s.puts.Add(1)
	return s.StateStore.Put(ctx, id, owner, state, until)
}

// TestACutOffCallGoesOn in the next identical call, without the question and effect before.
func TestACutOffCallGoesOn(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			var looks, charges atomic.Int64
			ctx, leave := context.WithCancel(t.Context())
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				err := askOne(ctx, "confirm")()
				if err == nil {
					_, err = roundtrip.Memo(ctx, "charge", func(context.Context) (int64, error) {
						return charges.Add(1), nil
					})
				}
				if err == nil {
					err = askOne(ctx, "mail", onlyBy("text"))()
				}
				if err == nil {
					err = roundtrip.AwaitEvent(ctx, "job", func(ctx context.Context) (bool, error) {
						if looks.Add(1) == 1 {
							leave()
							<-ctx.Done()
						}
						return looks.Load() > 1, ctx.Err()
					})
				}
				return server.Text("done"), err
			}, nil, func(o *roundtrip.Options) { o.Guard = store.NewMemoryGuard(0) })
			who := host{caps: formCaps, form: `{"action":"accept","content":{"yes":"y"}}`}
			h.browser().answer(h.wantLink(t, who, "", era), "accept", "yes")
			(&guest{t: t, host: who, ctx: ctx}).call(h.connect(t), era)
			h.calls.Wait()
			if again := h.play(t, who, "", era); again != "done" || charges.Load() != 1 {
				t.Errorf("got %q, charged %d times", again, charges.Load())
			}
		})
	}
}

func TestTheEndOfTheRoundsNamesTheQuestionOnThePage(t *testing.T) {
	h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		got, err := target.Ask(ctx, "Where?", roundtrip.AskAgain())
		return server.Text(got.Target), err
	}, nil)
	text := h.play(t, mute, "", protocol.Modern)
	for ; linkIn.MatchString(text); text = h.play(t, mute, "", protocol.Modern) {
		h.browser().answer(linkIn.FindString(text), "decline", "")
	}
	if !strings.Contains(text, "the last asked for: target;") {
		t.Errorf("got %q", text)
	}
}

// An answer that the handler does not take is not given back to the next link.
func TestARefusedAnswerIsAskedForAnew(t *testing.T) {
	guard := func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		reply := target.Answer(ctx)
		if reply.Outcome != roundtrip.Accepted || reply.Content.Target != "prod" {
			return roundtrip.InputRequired(target.Elicit("Where?", roundtrip.AskAgain())), nil
		}
		return server.Text(reply.Content.Target), nil
	}
	flow := func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		got, err := target.Ask(ctx, "Where?", roundtrip.AskAgain())
		return server.Text(got.Target), err
	}
	for name, era := range eras {
		for _, tc := range []struct {
			style   string
			handle  handler
			refused string
		}{{"guard", guard, "accept"}, {"guard", guard, "decline"}, {"flow", flow, "decline"}} {
			t.Run(name+"/"+tc.style+"/"+tc.refused, func(t *testing.T) {
				h := openHall(t, "HTTP", tc.handle, nil)
				h.browser().answer(h.wantLink(t, mute, "", era), tc.refused, "nowhere")
				h.browser().answer(h.wantLink(t, mute, "", era), "accept", "prod")
				if text := h.play(t, mute, "", era); text != "prod" {
					t.Errorf("got %q", text)
				}
			})
		}
	}
}

// Agreement to one link is not agreement to the next one of its key, and an answer to a link stays
// good while the client answers another question of its round.
func TestEachLinkIsShownAndKeepsItsAnswer(t *testing.T) {
	loop := func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		step, _ := roundtrip.State[int](ctx)
		if roundtrip.Answer[yes](ctx, "b").Outcome == roundtrip.Accepted {
			if step++; step == 2 {
				return server.Text("done"), nil
			}
		}
		return roundtrip.InputRequired(roundtrip.Elicit[yes]("b", fmt.Sprintf("Delete %d?", step)),
			roundtrip.WithState(step)), nil
	}
	beside := func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
		_, roots := roundtrip.Roots(ctx, "a")
		if roots && roundtrip.Answer[yes](ctx, "b").Outcome == roundtrip.Accepted {
			return server.Text("done"), nil
		}
		return roundtrip.InputRequired(roundtrip.ListRoots("a"), roundtrip.Elicit[yes]("b", "B?")), nil
	}
	for name, era := range eras {
		for _, tc := range []struct {
			name   string
			handle handler
			links  int32
		}{{"loop", loop, 2}, {"beside roots", beside, 1}} {
			t.Run(name+"/"+tc.name, func(t *testing.T) {
				h, shown := openHall(t, "HTTP", tc.handle, nil), sync.Map{}
				var links atomic.Int32
				g := &guest{t: t, host: host{caps: `{"roots":{},"elicitation":{"url":{}}}`,
					form: `{"roots":[]}`, link: `{"action":"accept"}`}, visit: func(link string) {
					if _, again := shown.LoadOrStore(link, true); !again {
						links.Add(1)
						h.browser().answer(link, "accept", "yes")
					}
				}}
				if text := g.call(h.connect(t), era); text != "done" || links.Load() != tc.links {
					t.Errorf("%d links shown: %q", links.Load(), text)
				}
			})
		}
	}
}

// TestASessionThatEndsDuringAVisit: the next call with the same arguments gets the answer.
func TestASessionThatEndsDuringAVisit(t *testing.T) {
	for style, handle := range handlers {
		t.Run(style, func(t *testing.T) {
			h := openHall(t, "HTTP", handle, nil)
			g, link := &guest{t: t, host: agrees}, ""
			g.visit = func(shown string) {
				link = shown
				time.AfterFunc(50*time.Millisecond, func() { g.leave() }) // while it is on the page
			}
			if text := g.call(h.connect(t), protocol.Legacy); text != "" {
				t.Fatalf("got %q", text)
			}
			h.calls.Wait()
			h.browser().enter(link, "prod")
			g.visit = func(string) { t.Error("asked again") }
			if text := g.call(h.connect(t), protocol.Legacy); text != "deployed to prod" {
				t.Errorf("got %q", text)
			}
		})
	}
}

// TestAnAnswerIsUsedOnce without a guard, though the client sends a round several times, in which
// it has answered another question, and calls again.
func TestAnAnswerIsUsedOnce(t *testing.T) {
	for _, way := range []event.Way{"link", "text"} {
		t.Run(string(way), func(t *testing.T) {
			var done atomic.Int64
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				if _, err := askAtOnce(askOne(ctx, "pay", onlyBy(way)), func() error {
					_, err := roundtrip.AskRoots(ctx, "roots")
					return err
				}); err != nil {
					return nil, err
				}
				done.Add(1)
				return server.Text("done"), nil
			}, nil)
			caps := `{"roots":{},"elicitation":{"url":{}}}`
			g, peer := &guest{t: t, host: host{caps: caps}}, h.connect(t)
			const call = `"name":"deploy","arguments":{"of":""}`
			var asks struct {
				RequestState  string
				InputRequests map[string]struct{ Params struct{ URL string } }
			}
			first := g.send(peer, protocol.MethodCallTool, "deploy", call).Result
			noError(t, json.Unmarshal(first, &asks))
			leg := call + `,"requestState":"` + asks.RequestState + `","inputResponses":{` +
				`"roots":{"roots":[]},"pay (page)":{"action":"accept"}}`
			link := asks.InputRequests["pay (page)"].Params.URL
			for range 2 {
				if way == "text" {
					link = linkIn.FindString(textOf(t, g.send(peer, protocol.MethodCallTool, "deploy", leg)))
				}
			}
			h.browser().answer(link, "accept", "yes")
			for range 3 {
				g.send(peer, protocol.MethodCallTool, "deploy", leg)
				g.send(peer, protocol.MethodCallTool, "deploy", call)
			}
			if n := done.Load(); n != 1 {
				t.Errorf("done %d times", n)
			}
		})
	}
}

// TestAPushedQuestionGoesByTextBeforeAnyAnswer: after one the handler may have acted.
func TestAPushedQuestionGoesByTextBeforeAnyAnswer(t *testing.T) {
	for next, want := range map[string]string{"push": "find out what it has done",
		"ask": "nobody answered"} {
		charges := 0
		h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
			for _, message := range []string{"Pay?", "Mail?"} {
				_, err := roundtrip.PushRequest(ctx, &protocol.ElicitForm{Message: message,
					Schema: []byte(`{"type":"object","properties":{"yes":{"type":"string"}}}`)})
				if err != nil {
					return nil, err
				}
				if charges++; next == "ask" {
					return nil, askOne(ctx, "mail", onlyBy("form"))()
				}
			}
			return server.Text("done"), nil
		}, nil)
		h.browser().answer(h.wantLink(t, mute, "", protocol.Legacy), "accept", "yes")
		who := mute
		if next == "ask" {
			who = host{caps: formCaps}
		}
		h.want(t, who, "", protocol.Legacy, want)
		h.play(t, mute, "", protocol.Legacy)
		if charges != 1 {
			t.Errorf("%s: charged %d times", next, charges)
		}
	}
}

// TestAFailingStoreRepeatsNoEffect, whatever of it fails once after the first answer.
func TestAFailingStoreRepeatsNoEffect(t *testing.T) {
	for name, era := range eras {
		for _, style := range []string{"flow", "guard"} {
			t.Run(name+"/"+style, func(t *testing.T) {
				for n := range 24 {
					pays, charges := 0, 0
					handle := func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
						if style == "guard" && hasYes(ctx, "pay") && !hasYes(ctx, "mail") {
							charges++
						}
						if style == "guard" {
							return cmp.Or(askBack(ctx, "pay"), askBack(ctx, "mail"),
								outcome(server.Text("done"))), nil
						}
						if err := askOne(ctx, "pay")(); err != nil {
							return nil, err
						}
						_, err := roundtrip.Memo(ctx, "charge", func(context.Context) (int, error) {
							charges++
							return charges, nil
						})
						return server.Text("done"), cmp.Or(err, askOne(ctx, "mail")())
					}
					f := &failing{StateStore: store.NewMemoryStateStore(0), left: -2, after: n%2 == 1}
					h := openHall(t, "HTTP", handle, func(o *visit.QuestionOptions) {
						o.Store, o.Keys = f, newKeys()
					})
					for calls := 0; calls < 12; calls++ {
						text := h.play(t, mute, "", era)
						if text == "done" {
							break
						}
						for _, link := range linkIn.FindAllString(text, -1) {
							h.browser().answer(link, "accept", "yes")
							pays += strings.Count(text, "\npay?")
						}
						if calls == 0 {
							f.left = n / 2
						}
					}
					if charges > pays || charges == 0 {
						t.Errorf("%d: charged %d times for %d yeses", n, charges, pays)
					}
				}
			})
		}
	}
}

// A person who comes late to a link: the next call shows it again, or has the answer.
func TestALinkThatTimedOutIsNotLost(t *testing.T) {
	inEras(t, func(t *testing.T, h *hall, era protocol.Era) {
		links := []string{}
		g := &guest{t: t, host: agrees, visit: func(link string) { links = append(links, link) }}
		for n := range 2 {
			text := g.call(h.connect(t), era)
			if !strings.Contains(text, "call again") || len(links) != n+1 || links[n] != links[0] {
				t.Fatalf("%d links, then %q", len(links), text)
			}
		}
		h.browser().enter(links[0], "prod")
		if text := g.call(h.connect(t), era); text != "deployed to prod" || len(links) != 2 {
			t.Errorf("%d links, then %q", len(links), text)
		}
	})
}

// Of two calls at once whose links have timed out, the one that is answered goes on.
func TestAnAnswerIsFoundBehindAnOpenLink(t *testing.T) {
	inEras(t, func(t *testing.T, h *hall, era protocol.Era) {
		shown, calls := make(chan string, 99), sync.WaitGroup{}
		call := func() string {
			g := &guest{t: t, host: agrees, visit: func(link string) { shown <- link }}
			return g.call(h.connect(t), era)
		}
		calls.Go(func() { call() })
		first := <-shown
		calls.Go(func() { call() })
		second := first
		for second == first {
			second = <-shown
		}
		calls.Wait()
		h.browser().enter(second, "prod")
		if text := call(); text != "deployed to prod" {
			t.Errorf("got %q", text)
		}
	})
}

func TestARefusalOfOneOfTwoQuestionsEndsTheFlow(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				return askAtOnce(askOne(ctx, "a"), askOne(ctx, "b"))
			}, nil)
			h.browser().answer(h.wantLink(t, mute, "", era), "decline", "")
			if text := h.play(t, mute, "", era); !strings.HasPrefix(text, "declined: ") {
				t.Errorf("got %q", text)
			}
		})
	}
}

// A client that declares forms and declines them by itself calls in a loop, after one without forms.
func TestACallWithAnOpenLinkStoresNothingMore(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			for _, memos := range []bool{false, true} {
				counted, runs := &countedStore{StateStore: store.NewMemoryStateStore(0)}, 0
				h := openHall(t, "HTTP", func(ctx context.Context, c *server.ToolCall) (outcome, error) {
					if runs++; memos {
						_, err := roundtrip.Nonce(ctx, "id")
						noError(t, err)
					}
					return handlers["flow"](ctx, c)
				}, func(o *visit.QuestionOptions) { o.Store, o.Keys = counted, newKeys() })
				h.wantLink(t, mute, "", era)
				link := h.wantLink(t, hosts[0], "", era)
				rows, before := counted.puts.Load(), runs
				for range 8 {
					if again := h.wantLink(t, hosts[0], "", era); again != link {
						t.Fatalf("got %q and %q", link, again)
					}
				}
				if counted.puts.Load() != rows || runs != before {
					t.Errorf("%d rows more, %d runs", counted.puts.Load()-rows, runs-before)
				}
			}
		})
	}
}

// A brokenStore hangs after its first row.
type brokenStore struct {
	*countedStore
	hangs chan struct{}
}

func (s brokenStore) Put(ctx context.Context, id, owner string, state []byte,
	until time.Time) error {
	if s.puts.Load() > 0 {
		s.hangs <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	return s.countedStore.Put(ctx, id, owner, state, until)
}

func TestAStoreThatHangsHoldsNoCallForGood(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // takes five seconds
			broken := brokenStore{&countedStore{StateStore: store.NewMemoryStateStore(0)},
				make(chan struct{}, 9)}
			h := openHall(t, "HTTP", handlers["flow"], func(o *visit.QuestionOptions) {
				o.Store, o.Keys = broken, newKeys()
			})
			ctx, leave := context.WithCancel(t.Context())
			go func() { <-broken.hangs; leave() }()
			(&guest{t: t, host: mute, ctx: ctx}).call(h.connect(t), era)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := h.server.Shutdown(ctx); err != nil {
				t.Errorf("the call still runs: %v", err)
			}
		})
	}
}

// TestAnEffectOfGuardStyleNeedsItsOwnYes, even if the call was cut off while it waited afterwards.
func TestAnEffectOfGuardStyleNeedsItsOwnYes(t *testing.T) {
	rooted := host{caps: `{"roots":{}}`, form: `{"roots":[]}`}
	for _, c := range []struct {
		name string
		era  protocol.Era
		who  host // one with roots is asked for them behind the effect
	}{{"2026-07-28", protocol.Modern, mute}, {"2025-11-25", protocol.Legacy, mute},
		{"2025-11-25, a round later", protocol.Legacy, rooted}} {
		t.Run(c.name, func(t *testing.T) {
			var charges atomic.Int64
			ctx, leave := context.WithCancel(t.Context())
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				for _, key := range []string{"pay", "mail"} {
					if asks := askBack(ctx, key); asks != nil {
						return asks, nil
					}
				}
				if _, charged := roundtrip.State[int](ctx); !charged {
					charges.Add(1)
					if c.who.form != "" {
						return roundtrip.InputRequired(roundtrip.ListRoots("r"), roundtrip.WithState(1)), nil
					}
				}
				return nil, roundtrip.AwaitEvent(ctx, "job", func(ctx context.Context) (bool, error) {
					leave()
					<-ctx.Done()
					return false, ctx.Err()
				})
			}, nil)
			h.browser().answer(h.wantLink(t, c.who, "", c.era), "accept", "yes")
			h.browser().answer(h.wantLink(t, c.who, "", c.era), "accept", "yes")
			(&guest{t: t, host: c.who, ctx: ctx}).call(h.connect(t), c.era)
			h.calls.Wait()
			h.want(t, c.who, "", c.era, "\npay?")
			if n := charges.Load(); n != 1 {
				t.Errorf("charged %d times", n)
			}
		})
	}
}

// A call that gives way to an identical one, while both wait for a form, runs no handler.
func TestACallThatGivesWayRunsNoHandler(t *testing.T) {
	var dead atomic.Int64
	h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		if ctx.Err() != nil {
			dead.Add(1)
		}
		if roundtrip.Answer[yes](ctx, "backup").Outcome != roundtrip.Missing && hasYes(ctx, "pay") {
			return server.Text("done"), nil
		}
		return roundtrip.InputRequired(roundtrip.Elicit[yes]("backup", "backup?", onlyBy("form")),
			roundtrip.Elicit[yes]("pay", "pay?", onlyBy("text"))), nil
	}, nil)
	const call = `"name":"deploy","arguments":{"of":""}`
	g, peer := &guest{t: t, host: host{caps: formCaps}}, h.connect(t)
	begin := func() (state string) {
		var asks struct{ RequestState string }
		_ = json.Unmarshal(g.send(peer, protocol.MethodCallTool, "deploy", call).Result, &asks)
		return asks.RequestState
	}
	a, b := begin(), begin()
	time.Sleep(500 * time.Millisecond) // the person reads
	for _, state := range []string{b, a} {
		text := textOf(t, g.send(peer, protocol.MethodCallTool, "deploy", call+`,"requestState":"`+
			state+`","inputResponses":{"backup":{"action":"decline"}}`))
		if linkIn.FindString(text) == "" || strings.Contains(text, "Nothing was done") {
			t.Errorf("got %q", text)
		}
	}
	if n := dead.Load(); n != 0 {
		t.Errorf("%d runs after the end of their call", n)
	}
}

// The user answers on the page, then closes the client's dialog or declines there.
func TestADialogIsClosedAfterAnAnswerOnThePage(t *testing.T) {
	for action, want := range map[string]string{"cancel": "deployed to prod", "decline": "declined"} {
		for name, era := range eras {
			t.Run(action+"/"+name, func(t *testing.T) {
				h := openHall(t, "HTTP", handlers["flow"], nil,
					func(o *roundtrip.Options) { o.HumanTimeout = time.Minute })
				g := &guest{t: t, visit: func(link string) {
					h.browser().enter(link, "prod")
					time.Sleep(500 * time.Millisecond) // the person looks
				}}
				g.caps, g.link = agrees.caps, `{"action":"`+action+`","_meta":{"accept":1}}`
				if text := g.call(h.connect(t), era); !strings.Contains(text, want) {
					t.Errorf("got %q", text)
				}
			})
		}
	}
}

// A client shows the form when it is asked the second time.
func TestAFormThatComesBackCountsAgain(t *testing.T) {
	for name, era := range eras {
		for _, option := range []roundtrip.QuestionOption{onlyBy("form", "link"),
			roundtrip.IfPossible()} {
			t.Run(name, func(t *testing.T) {
				h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
					if hasYes(ctx, "pay") {
						return server.Text("done"), nil
					}
					return roundtrip.InputRequired(roundtrip.Elicit[yes]("pay", "pay?", option)), nil
				}, nil)
				g := &guest{t: t, host: host{caps: bothCaps, link: "-32603 accept"}}
				g.visit = func(string) { g.later.Store(`{"action":"accept","content":{"yes":"y"}}`) }
				if text := g.call(h.connect(t), era); text != "done" {
					t.Errorf("got %q", text)
				}
			})
		}
	}
}

func payAndMail(opts ...roundtrip.QuestionOption) handler {
	return func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		if err := askOne(ctx, "pay", onlyBy("text"))(); err != nil {
			return nil, err
		}
		return server.Text("done"), askOne(ctx, "mail", opts...)()
	}
}

// In a session the next question's form or link is not answered.
func TestAnAnswerIsKeptIfTheNextQuestionHasNone(t *testing.T) {
	for _, who := range []host{{name: "form", caps: formCaps}, agrees} {
		t.Run(who.name, func(t *testing.T) {
			h := openHall(t, "HTTP", payAndMail(onlyBy("form", "link")), nil)
			h.browser().answer(h.wantLink(t, who, "", protocol.Legacy), "accept", "yes")
			g := &guest{t: t, host: who, visit: func(string) {}}
			g.call(h.connect(t), protocol.Legacy)
			who.form = `{"action":"accept","content":{"yes":"y"}}`
			g = &guest{t: t, host: who, visit: func(l string) { h.browser().answer(l, "accept", "yes") }}
			if text := g.call(h.connect(t), protocol.Legacy); text != "done" {
				t.Errorf("the answer is lost: %q", text)
			}
		})
	}
}

// Guard style would charge once more when it asks for the second yes again.
func TestAYesOfGuardStyleEndsWithTheNextLink(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			charges := 0
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				if hasYes(ctx, "pay") {
					charges++
				}
				return cmp.Or(askBack(ctx, "pay"), askBack(ctx, "mail")), nil
			}, func(o *visit.QuestionOptions) { o.TTL = time.Second })
			h.browser().answer(h.wantLink(t, mute, "", era), "accept", "yes")
			h.wantLink(t, mute, "", era)
			time.Sleep(1100 * time.Millisecond)
			if h.want(t, mute, "", era, "pay?"); charges != 1 {
				t.Errorf("charged %d times", charges)
			}
		})
	}
}

// A client sends a leg twice. Both end without an answer.
func TestCopiesOfALegServeOneEffect(t *testing.T) {
	h := openHall(t, "HTTP", payAndMail(), nil)
	g, peer := &guest{t: t, host: agrees}, h.connect(t)
	send := func(more string) (text string) {
		return string(g.send(peer, protocol.MethodCallTool, "deploy", `"name":"deploy"`+more).Result)
	}
	link := regexp.MustCompile(`http://[^\\"]+`)
	h.browser().answer(link.FindString(send("")), "accept", "yes")
	asks := send("")
	state := regexp.MustCompile(`"requestState":"[^"]+"`).FindString(asks)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { send(`,"inputResponses":{"mail (page)":{"action":"accept"}},` + state) })
	}
	both.Wait()
	h.browser().answer(link.FindString(asks), "accept", "yes")
	want(t, send(""), "done")
	want(t, send(""), "pay?")
}

// TestAYesServesOneEffect, though a later question fails and the handler goes on, or had another
// answer in between.
func TestAYesServesOneEffect(t *testing.T) {
	agree := `{"action":"accept","content":{"yes":"y"}}`
	form := func(ctx context.Context, key string) error { return askOne(ctx, key, onlyBy("form"))() }
	for name, c := range map[string]struct {
		who   host
		after func(ctx context.Context, g *guest, charge func()) error
	}{
		"the model fails": {host{caps: `{"sampling":{}}`, form: "-1"},
			func(ctx context.Context, _ *guest, charge func()) error {
				_, _ = roundtrip.AskMessage(ctx, "sum", &protocol.CreateMessage{MaxTokens: 10})
				charge()
				return nil
			}},
		"no answer": {host{caps: formCaps}, func(ctx context.Context, _ *guest, charge func()) error {
			_ = form(ctx, "note")
			charge()
			return nil
		}},
		"no answer, and another question": {host{caps: formCaps},
			func(ctx context.Context, _ *guest, charge func()) error {
				_ = form(ctx, "note")
				charge()
				return form(ctx, "receipt")
			}},
		"no answer, and the cause": {host{caps: formCaps},
			func(ctx context.Context, _ *guest, charge func()) error {
				_ = form(ctx, "note")
				charge()
				return context.Cause(ctx)
			}},
		"no answer, and its error with more": {host{caps: formCaps},
			func(ctx context.Context, _ *guest, charge func()) error {
				err := form(ctx, "note")
				charge()
				return fmt.Errorf("paid, without a note: %w", err)
			}},
		"an answer between": {host{caps: formCaps, form: agree},
			func(ctx context.Context, g *guest, charge func()) error {
				if err := form(ctx, "sure"); err != nil {
					return err
				}
				charge()
				g.later.Store("") // nobody is there any more
				return form(ctx, "mail")
			}},
		"cut off": {mute, func(ctx context.Context, g *guest, charge func()) error {
			_ = roundtrip.AwaitEvent(ctx, "job", func(ctx context.Context) (bool, error) {
				g.leave()
				<-ctx.Done()
				return false, ctx.Err()
			})
			charge()
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var charges atomic.Int64
			var g *guest
			h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
				if err := askOne(ctx, "pay", onlyBy("text"))(); err != nil {
					return nil, err
				}
				return server.Text("done"), c.after(ctx, g, func() { charges.Add(1) })
			}, nil)
			h.browser().answer(h.wantLink(t, c.who, "", protocol.Legacy), "accept", "yes")
			for range 3 {
				g = &guest{t: t, host: c.who}
				g.call(h.connect(t), protocol.Legacy)
				h.calls.Wait()
			}
			if n := charges.Load(); n != 1 {
				t.Errorf("charged %d times", n)
			}
		})
	}
}

func TestThePageTakesNoAnswerThatComesTooLate(t *testing.T) {
	h := openHall(t, "HTTP", func(ctx context.Context, _ *server.ToolCall) (outcome, error) {
		return nil, askOne(ctx, "a", roundtrip.AnswerWithin(time.Second))()
	}, nil)
	link, b := h.wantLink(t, mute, "", protocol.Modern), h.browser()
	form := b.fill(link, "accept", "yes")
	time.Sleep(1100 * time.Millisecond)
	if status, text := b.send("POST", link, form, nil); status != 410 {
		t.Errorf("%d %s", status, text)
	}
}
