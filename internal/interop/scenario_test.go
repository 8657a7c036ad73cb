package interop_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// A request is a client's task, described in the same terms for all clients.
type request struct {
	Method   string            `json:"method"`
	Target   string            `json:"target"` // a name or URI
	Args     map[string]string `json:"args,omitempty"`
	More     map[string]any    `json:"more,omitempty"`     // further arguments of a tool
	Progress bool              `json:"progress,omitempty"` // requests progress
	// Timeout is in milliseconds. 0 means the client's default. Only TypeScript clients use it.
	Timeout int `json:"timeout,omitempty"`
}

func (r request) arguments() map[string]any {
	if r.Args == nil && r.More == nil {
		return nil
	}
	all := map[string]any{}
	for name, text := range r.Args {
		all[name] = text
	}
	for name, value := range r.More {
		all[name] = value
	}
	return all
}

func tool(name string, args map[string]string) request {
	return request{Method: protocol.MethodCallTool, Target: name, Args: args}
}

func prompt(name string, args map[string]string) request {
	return request{Method: protocol.MethodGetPrompt, Target: name, Args: args}
}

func resource(uri string) request {
	return request{Method: protocol.MethodReadResource, Target: uri}
}

// A peer is a client of any make that is connected to a server. It returns the answer, as it reads
// it, as text: names or URIs for a list, and "error: " before the text of a failed tool.
type peer interface {
	do(ctx context.Context, r request) (string, error)
}

// A scenario is a task and its expected outcome.
type scenario struct {
	name     string
	request  request
	answers  answers
	mute     bool // the client declares no capabilities
	legs     int  // number of times that the request is sent
	want     string
	fails    bool // want is part of an error
	progress int  // number of progress reports
	again    bool // the request is made twice, and not cached

	// These depend on the revision; in sets them.
	pushes  int  // questions that the server sends as requests
	refused bool // want is part of a failed tool's text
}

// scenarios returns one axis of the matrix. The other axis is the peers and their routes.
func scenarios() []scenario {
	because, env := `{"reason":"it is tested"}`, map[string]string{"env": "prod"}
	topic := map[string]string{"topic": "rondos"}
	return []scenario{
		{name: "list tools", request: request{Method: protocol.MethodListTools}, legs: 1,
			want: "deploy fail plain poll provision sign_in slow summarize survey tidy wizard"},
		{name: "list prompts", request: request{Method: protocol.MethodListPrompts}, legs: 1,
			want: "brief"},
		{name: "list resources", request: request{Method: protocol.MethodListResources}, legs: 1,
			want: "vault://codes"},
		{name: "list templates", request: request{Method: protocol.MethodListResourceTemplates},
			legs: 1, want: "vault://box/{box}"},
		{name: "no question", request: tool("plain", nil), legs: 1, want: "plain"},
		{name: "single round", request: tool("deploy", env),
			answers: answers{"Deploy to prod?": because},
			legs:    2, want: "deployed to prod: it is tested"},
		{name: "decline", request: tool("deploy", env),
			answers: answers{"Deploy to prod?": "decline"},
			legs:    2, want: "left prod alone: declined"},
		{name: "cancel", request: tool("deploy", env),
			answers: answers{"Deploy to prod?": "cancel"},
			legs:    2, want: "left prod alone: cancelled"},
		{name: "three rounds", request: tool("wizard", nil), legs: 4,
			want: "8 cores in eu for ada@example.com, saw eu",
			answers: answers{"Which region?": `{"name":"eu"}`, "How big in eu?": `{"cores":8}`,
				"Who is told?": `{"email":"ada@example.com"}`}},
		{name: "defaults", request: tool("wizard", nil), legs: 4,
			want: "2 cores in us for ada@example.com, saw us",
			answers: answers{"Which region?": `{"name":"us"}`, "How big in us?": `{"spare":true}`,
				"Who is told?": `{"email":"ada@example.com"}`}},
		{name: "decline in a later round", request: tool("wizard", nil), legs: 3,
			want:    "error: declined: size",
			answers: answers{"Which region?": `{"name":"eu"}`, "How big in eu?": "decline"}},
		{name: "typed result", request: tool("provision", nil),
			answers: answers{"Which region?": `{"name":"eu"}`},
			legs:    2, want: `{"region":"eu"}`},
		{name: "failure after a question", request: tool("fail", nil),
			answers: answers{"Fail?": because},
			legs:    2, want: "error: the disk is full"},
		{name: "progress", request: request{Method: protocol.MethodCallTool, Target: "slow",
			Progress: true},
			answers: answers{"Go on?": because}, legs: 2, progress: 2, want: "went on"},
		{name: "sampling", request: tool("summarize", nil),
			answers: answers{"Summarize.": "It is short."},
			legs:    2, want: "model-1 says: It is short."},
		{name: "roots", request: tool("tidy", nil),
			answers: answers{"roots": "file:///doc file:///src"},
			legs:    2, want: "tidied file:///doc file:///src"},
		{name: "URL", request: tool("sign_in", nil), answers: answers{"Sign in": "{}"}, legs: 2,
			want: "visit accepted"},
		{name: "URL declined", request: tool("sign_in", nil),
			answers: answers{"Sign in": "decline"}, legs: 2, want: "visit declined"},
		{name: "all at once", request: tool("survey", nil), legs: 2,
			want: "accepted it is tested, It is short., file:///src, visit accepted",
			answers: answers{"Sure?": because, "Summarize.": "It is short.", "roots": "file:///src",
				"Sign in": "{}"}},
		{name: "state alone", request: tool("poll", nil), legs: 3, want: "ready"},
		{name: "prompt", request: prompt("brief", topic),
			answers: answers{"Who reads it?": `{"email":"bob@example.com"}`},
			legs:    2, want: "Write about rondos for bob@example.com"},
		{name: "prompt declined", request: prompt("brief", topic),
			answers: answers{"Who reads it?": "decline"},
			legs:    2, fails: true, want: "declined: contact"},
		{name: "resource", request: resource("vault://codes"),
			answers: answers{"Open vault://codes?": because},
			legs:    2, want: "opened: it is tested"},
		{name: "resource template", request: resource("vault://box/7"),
			answers: answers{"Open vault://box/7?": because},
			legs:    2, want: "opened: it is tested"},
		{name: "resource twice", request: resource("vault://codes"),
			answers: answers{"Open vault://codes?": because},
			again:   true, legs: 4, want: "opened: it is tested"},
		{name: "cannot be asked", request: tool("deploy", env), mute: true, legs: 1, fails: true,
			want: "elicitation"},
		{name: "cannot visit", request: tool("sign_in", nil), mute: true, legs: 1, fails: true,
			want: "elicitation"},
		{name: "no such tool", request: tool("nowhere", nil), legs: 1, fails: true,
			want: "nowhere"},
	}
}

// A defect is a peer's wrong outcome of a scenario.
type defect struct {
	what   string // description for the reader
	want   string // the text, or part of the error
	fails  bool
	legs   int
	asked  int // how often each question is asked; or uncounted
	pushes int // number of questions sent as requests
	// The field leaks names members of another era that the peer sends, in the words of apart.
	leaks    string
	within   bool // want is part of a failed tool's text
	harmless bool // the outcome is right
	silent   bool // progress may be missing
}

// The constant uncounted means that only some questions are asked, or that they vary.
const uncounted = -1

// The constant both means that client and server are ours.
const both wiretest.From = ""

// A route is a way from a client to a server, at least one of which is ours. open connects a client
// (if mute, without capabilities), and returns the recorded messages.
type route struct {
	name string
	open func(t *testing.T, who *person, mute bool) (peer, said)
}

// matrix takes a client through all scenarios, over its routes, in a revision. defects are the
// peer's, by scenario or by scenario/route. ours is the side whose messages must conform.
func matrix(t *testing.T, revision string, ours wiretest.From, routes []route,
	defects map[string]defect) {
	t.Helper()
	runMatrix(t, false, revision, ours, routes, defects)
}

// parallelMatrix does the same with parallel scenarios, which mostly wait. It is not for mcp-go's
// servers on streams, which keep one session in a package variable.
func parallelMatrix(t *testing.T, revision string, ours wiretest.From, routes []route,
	defects map[string]defect) {
	t.Helper()
	runMatrix(t, true, revision, ours, routes, defects)
}

func runMatrix(t *testing.T, parallel bool, revision string, ours wiretest.From, routes []route,
	defects map[string]defect) {
	t.Helper()
	unused := maps.Clone(defects)
	for _, s := range scenarios() {
		for _, r := range routes {
			name := s.name + "/" + r.name
			d, one := defects[name]
			if !one {
				d = defects[s.name]
			}
			delete(unused, s.name)
			delete(unused, name)
			t.Run(name, func(t *testing.T) {
				if parallel {
					t.Parallel()
				}
				s.in(revision).run(t, revision, ours, r, d)
			})
		}
	}
	for name := range unused {
		t.Errorf("there is no scenario %q", name)
	}
}

func (s scenario) run(t *testing.T, revision string, ours wiretest.From, r route, d defect) {
	who := newPerson(t, s.answers)
	client, said := r.open(t, who, s.mute)
	ctx := within(t, patience)
	runs := 1
	if s.again {
		runs = 2
	}
	asked := runs
	if d.what != "" {
		t.Logf("defect of the peer: %s", d.what)
	}
	if d.what != "" && !d.harmless {
		s.want, s.fails, s.refused, s.legs, asked, s.pushes = d.want, d.fails, d.within, d.legs,
			d.asked, d.pushes
	}
	for range runs {
		got, err := client.do(ctx, s.request)
		if s.request.Method == protocol.MethodListTools { // lists come in any order
			got = strings.Join(slices.Sorted(strings.FieldsSeq(got)), " ")
		}
		// Our server adds instructions for the model.
		got, _, _ = strings.Cut(got, "; the person ")
		switch {
		case s.fails && (err == nil || !strings.Contains(err.Error(), s.want)):
			t.Errorf("got %q, %v, want an error about %q", got, err, s.want)
		case s.refused && (err != nil || !strings.HasPrefix(got, "error: ") ||
			!strings.Contains(got, s.want)):
			t.Errorf("got %q, %v, want a failed tool and %q", got, err, s.want)
		case !s.fails && !s.refused && (err != nil || got != s.want):
			t.Errorf("got %q, %v, want %q", got, err, s.want)
		}
	}
	if asked != uncounted {
		who.wantAsked(asked)
	}
	for range s.progress {
		if d.silent {
			break
		}
		select {
		case <-who.progress:
		case <-ctx.Done():
			t.Fatal("progress is missing")
		}
	}
	messages := said()
	if n := conform(t, revision, ours, messages, d.leaks); n != s.pushes && s.pushes != uncounted {
		t.Errorf("the server sent %d questions, want %d", n, s.pushes)
	}
	if revision == modern && ours != wiretest.Server {
		checkRetries(t, messages, s.request.Method)
	}
	if n := legs(messages, s.request.Method); n != s.legs {
		t.Errorf("%s was sent %d times, want %d", s.request.Method, n, s.legs)
	}
	if n := legs(messages, protocol.MethodInitialize); n != 0 && revision == modern || n != 1 &&
		revision != modern {
		t.Errorf("%d sessions were opened", n)
	}
}
