package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const (
	approvals = "approvals"
	pageHost  = "127.0.0.1:9" // where the page is for browsers, which are led to a replica
)

// A LinkStore is shared by replicas with a page.
type LinkStore interface {
	store.Guard
	store.StateStore
}

// approvers returns the names of the tools.
func approvers() []string { return []string{"flow", "guard", "twice"} }

// askForApproval returns the answers, or asks: in guard or flow style, or twice in the latter.
func askForApproval(ctx context.Context, tool string) (string, protocol.CallToolOutcome, error) {
	if tool == "guard" {
		switch answer := roundtrip.Answer[reply](ctx, "first"); answer.Outcome {
		case roundtrip.Accepted:
			return answer.Content.Text, nil, nil
		case roundtrip.Declined, roundtrip.Unseen:
			return "", nil, &roundtrip.DeclinedError{Key: "first"}
		}
		return "", roundtrip.InputRequired(roundtrip.Elicit[reply]("first", "Do it?")), nil
	}
	one, err := roundtrip.Ask[reply](ctx, "first", "Do it?")
	if err != nil || tool == "flow" {
		return one.Text, nil, err
	}
	two, err := roundtrip.Ask[reply](ctx, "second", "Really?")
	return one.Text + "," + two.Text, nil, err
}

// newApprover serves the tools and the page. It may be killed anywhere.
func newApprover(shared LinkStore) (http.Handler, error) {
	ann := protocol.Principal{Subject: "ann"}
	page, err := visit.NewQuestions("http://"+pageHost+"/page",
		&visit.QuestionOptions{Options: visit.Options{Store: shared, Keys: newKeyring(),
			Visitor: func(http.ResponseWriter, *http.Request) (protocol.Principal, bool) {
				return ann, true
			}}})
	if err != nil {
		return nil, err
	}
	srv, err := server.New(&server.Options{
		Info:      servertest.Info(),
		Roundtrip: roundtrip.Options{Sealer: newKeyring(), Guard: shared, Page: page},
	})
	if err != nil {
		return nil, err
	}
	for _, name := range approvers() {
		server.AddTool(srv, server.Tool{Name: name}, func(ctx context.Context, _ *server.ToolCall,
			in order) (protocol.CallToolOutcome, error) {
			answers, outcome, err := askForApproval(ctx, name)
			if outcome != nil || err != nil {
				return outcome, err
			}
			time.Sleep(rand.N(50 * time.Millisecond))
			if err := note("act", in.Flow, answers); err != nil {
				return nil, err
			}
			time.Sleep(rand.N(50 * time.Millisecond))
			return server.Text("done"), nil
		})
	}
	handler, err := serverhttp.New(srv, &serverhttp.Options{
		Authenticate: func(*http.Request) (protocol.Principal, error) { return ann, nil }})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.Handle("/page", page)
	return mux, nil
}

// A linkFleet is two replicas, and the person who is led to either.
type linkFleet struct {
	*fleet
	accepted map[string]string // the flow of each answer
	declined int
	failed   int // calls that died
}

// RunLinks runs flows whose person answers at the link in the result, with double clicks and
// reloads, while calls are repeated and replicas are killed.
//
// An answer serves one call and is lost if that is killed, before or after its effect. The next one
// has a new link. Its person declines if the effect has happened: each flow ends with one effect.
func RunLinks(t *testing.T, plan Plan) {
	t.Helper()
	f := &linkFleet{fleet: startFleet(t, approvals, plan, 2), accepted: map[string]string{}}
	f.caps = ""
	began := time.Now()
	kills := f.runAll(20, f.answerFlow, func(int) func() { return nil })
	effects, used := f.countEffects()
	t.Logf("%d flows, %d kills, %d calls failed, %d answers accepted, %d of them lost, "+
		"%d declined, %d effects; over after %v", plan.Flows, kills, f.failed, len(f.accepted),
		len(f.accepted)-used, f.declined, effects, time.Since(began).Round(time.Second))
}

// A linkRound has the results of concurrent calls.
type linkRound struct {
	over   bool // done, or declined
	failed int
	links  []string // without duplicates
}

var pageLink = regexp.MustCompile(`http://[^\s"\\]+`)

// answerFlow repeats concurrent calls until the tool is done. The person answers at earlier links.
func (f *linkFleet) answerFlow(n int) {
	flow, tool := fmt.Sprint("flow-", n), approvers()[n%3]
	jar, _ := cookiejar.New(nil) // which has no options that could be wrong
	web := &http.Client{Transport: f, Timeout: f.http.Timeout, Jar: jar}
	var before linkRound
	answered := false
	for range 100 {
		var person sync.WaitGroup
		accepts := false
		person.Go(func() {
			for _, link := range before.links {
				accepts = f.answerLink(web, flow, link) || accepts
			}
		})
		now := f.callAtOnce(tool, flow)
		person.Wait()
		switch healthy := now.failed == 0; {
		case now.over:
			return
		case healthy && len(now.links) != 1:
			f.t.Errorf("%s has the links %q", flow, now.links)
		case healthy && answered && before.failed == 0 && tool != "twice":
			f.t.Errorf("%s has lost an answer, and no call has failed", flow)
		}
		before, answered = now, accepts
		if len(now.links) == 0 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	f.t.Errorf("%s comes to no end", flow)
}

// callAtOnce calls a tool three times at once, each at any replica, or one that asks twice once:
// while a call is at its second question, another one may begin anew.
func (f *linkFleet) callAtOnce(tool, flow string) (r linkRound) {
	texts, calls := make(chan string), 3
	if tool == "twice" {
		calls = 1
	}
	for range calls {
		go func() {
			raw, err := f.send(f.t.Context(), protocol.MethodCallTool, tool,
				fmt.Sprintf(`"name":%q,"arguments":{"flow":%q}`, tool, flow))
			if reply, sent := protocol.AsError(err); sent {
				raw = []byte(reply.Message)
			}
			texts <- string(raw)
		}()
	}
	for range calls {
		text := <-texts
		link := pageLink.FindString(text)
		switch {
		case strings.Contains(text, `"done"`), strings.Contains(text, "declined"):
			r.over = true
		case text == "": // killed
			r.failed++
		case link == "":
			f.t.Errorf("%s: unexpected answer %q", flow, text)
		case !slices.Contains(r.links, link):
			r.links = append(r.links, link)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed += r.failed
	return r
}

// RoundTrip leads a browser to any replica.
func (f *linkFleet) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = f.anyHost()
	r.Header.Set("Origin", "http://"+pageHost)
	return f.http.Transport.RoundTrip(r)
}

// readPage reads what a browser got. The status is 0 if the replica was killed.
func readPage(resp *http.Response, err error) (status int, page string) {
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err == nil {
		return resp.StatusCode, string(text)
	}
	return 0, ""
}

// answerLink answers with a double click, reloads until the page says so, and reports an accept.
func (f *linkFleet) answerLink(web *http.Client, flow, link string) (accepts bool) {
	answer := url.Values{}
	for {
		status, page := readPage(web.Get(link))
		switch {
		case status == http.StatusGone:
			return accepts
		case status == 0:
			time.Sleep(50 * time.Millisecond)
			continue
		case status != http.StatusOK:
			f.t.Errorf("%s: the page is %d %s", flow, status, page)
			return accepts
		case len(answer) == 0:
			answer, accepts = f.decideAnswer(flow)
		}
		form, _ := testkit.ReadHTMLForm(page)
		maps.Copy(form, answer)
		clicks, got := make(chan int), map[int]int{}
		for range 2 {
			go func() {
				status, _ := readPage(web.PostForm(link, form))
				clicks <- status
			}()
		}
		got[<-clicks]++
		got[<-clicks]++
		if got[0]+got[http.StatusOK]+got[http.StatusGone] != 2 || got[http.StatusOK] == 2 {
			f.t.Errorf("%s: two clicks got %v", flow, got)
		}
	}
}

// decideAnswer returns the person's input: a unique accepted text, or a decline after the effect.
func (f *linkFleet) decideAnswer(flow string) (answer url.Values, accepts bool) {
	done := false
	f.eachNote(func(_, which, _ string) { done = done || which == flow })
	f.mu.Lock()
	defer f.mu.Unlock()
	if done {
		f.declined++
		return url.Values{"action": {"decline"}}, false
	}
	text := fmt.Sprint("answer-", len(f.accepted))
	f.accepted[text] = flow
	return url.Values{"action": {"accept"}, "field.text": {text}}, true
}

// countEffects compares effects with the answers, and returns how many answers were used.
func (f *linkFleet) countEffects() (effects, used int) {
	f.t.Helper()
	done := map[string]int{}
	f.eachNote(func(_, flow, answers string) {
		effects++
		done[flow]++
		for answer := range strings.SplitSeq(answers, ",") {
			if used++; f.accepted[answer] != flow {
				f.t.Errorf("%s is done for %s, of %q", flow, answer, f.accepted[answer])
			}
			f.accepted[answer] = "" // it is for one effect
		}
	})
	for n := range f.plan.Flows {
		if flow := fmt.Sprint("flow-", n); done[flow] != 1 {
			f.t.Errorf("%s is done %d times", flow, done[flow])
		}
	}
	return effects, used
}
