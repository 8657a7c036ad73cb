package client_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

func storedCall(t testing.TB) string {
	t.Helper()
	c, err := client.New(script(ask(`"inputRequests":{"who":`+nameForm+`,"in":`+visitURL+
		`},"requestState":"the state of it"`)), byHand())
	noError(t, err)
	_, p, err := c.Begin(t.Context(),
		&protocol.CallToolParams{Name: "greet", Arguments: json.RawMessage(`{"n":1}`)})
	noError(t, err)
	noError(t, p.Answer("who", client.Decline()))
	data, err := json.Marshal(p)
	noError(t, err)
	return string(data)
}

// The text is a promise: later versions must read this version's output.
func TestPendingText(t *testing.T) {
	want := `{"format":1,"method":"tools/call","params":{"name":"greet","arguments":{"n":1}},"round":1,"lastId":1,` +
		`"asked":{"resultType":"input_required","inputRequests":{"who":` + nameForm + `,"in":` + visitURL + `},"requestState":"the state of it"},` +
		`"answers":{"who":{"action":"decline"}}}`
	wantEqual(t, "stored", storedCall(t), want)
}

func TestHostilePendingText(t *testing.T) {
	good := storedCall(t)
	noError(t, json.Unmarshal([]byte(good), new(client.Pending)))
	cases := []struct{ name, old, new string }{
		{"other format", `"format":1`, `"format":2`},
		{"no format", `"format":1,`, ``},
		{"format of another case", `"format":1`, `"Format":1`},
		{"method without rounds", `"method":"tools/call"`, `"method":"tools/list"`},
		{"unknown method", `"method":"tools/call"`, `"method":"x"`},
		{"other method of the same shape", `"method":"tools/call"`, `"method":"resources/read"`},
		{"member twice", `"round":1`, `"round":1,"round":2`},
		{"round zero", `"round":1`, `"round":0`},
		{"round below zero", `"round":1`, `"round":-9223372036854775808`},
		{"round of a fraction", `"round":1`, `"round":1.5`},
		{"no id", `"lastId":1`, `"lastId":0`},
		{"id near the end", `"lastId":1`, `"lastId":9007199254740991`},
		{"id beyond the last", `"lastId":1`, `"lastId":4503599627370497`},
		{"no params", `"params":{"name":"greet","arguments":{"n":1}},`, ``},
		{"null params", `{"name":"greet","arguments":{"n":1}}`, `null`},
		{"no name", `"name":"greet",`, ``},
		{"arguments that are a list", `{"n":1}`, `[]`},
		{"nothing asked", `"asked":{`, `"was":{`},
		{"complete", `"input_required"`, `"complete"`},
		{"complete with content", `"resultType":"input_required"`,
			`"content":[],"resultType":"complete"`},
		{"no questions", `"inputRequests":{`, `"_meta":{`},
		{"unknown result", `"input_required"`, `"other"`},
		{"null question", nameForm, `null`},
		{"unknown question", `"roots/list"`, `"x"`},
		{"same key twice", `"in":`, `"who":`},
		{"unknown kind", `"mode":"url"`, `"mode":"telepathy"`},
		{"state that is a number", `"the state of it"`, `1`},
		{"answer to nothing", `"answers":{"who"`, `"answers":{"other"`},
		{"answer of another shape", `{"action":"decline"}`, `{"roots":[]}`},
		{"answer that is not valid", `{"action":"decline"}`, `{"action":"accept","content":{"name":1}}`},
		{"null answer", `{"action":"decline"}`, `null`},
		{"answers that are a list", `{"who":{"action":"decline"}}`, `[]`},
		{"unusable form", `"type":"object","properties"`, `"type":"array","properties"`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			bad := strings.Replace(good, tc.old, tc.new, 1)
			if tc.name == "unusable form" { // the answer reveals it
				bad = strings.Replace(bad, `{"action":"decline"}`, `{"action":"accept"}`, 1)
			}
			if tc.name == "unknown question" {
				bad = strings.Replace(good, `"elicitation/create"`, `"tools/call"`, 1)
			}
			if bad == good {
				t.Fatal("nothing was changed")
			}
			kept := new(client.Pending)
			noError(t, json.Unmarshal([]byte(good), kept))
			if err := json.Unmarshal([]byte(bad), kept); err == nil {
				t.Errorf("accepted %s", bad)
			}
			if len(kept.Questions()) != 2 || kept.Round() != 1 {
				t.Errorf("a refused text changed the call: %v", kept)
			}
		})
	}
}

// A resumed call has an id above the highest that may be stored. Answers or state that were added
// to the stored parameters are not sent. The call does not alias its text.
func TestResumedText(t *testing.T) {
	text := []byte(strings.NewReplacer(`"lastId":1`, `"lastId":4503599627370496`, `"name":"greet"`,
		`"name":"greet","requestState":"forged","inputResponses":{"evil":{}}`).Replace(storedCall(t)))
	var p client.Pending
	noError(t, p.UnmarshalJSON(text))
	clear(text)
	answer(t, &p, "in", client.Cancel())
	peer := script(done)
	resume(t, newClient(t, peer, byHand()), &p)
	req := peer.requests()[0]
	wantEqual(t, "got id", req.ID, protocol.IntID(4503599627370497))
	got := member(t, req, "name") + member(t, req, "arguments") +
		member(t, req, "inputResponses") + member(t, req, "requestState")
	if want := `"greet"{"n":1}{"who":{"action":"decline"},"in":{"action":"cancel"}}` +
		`"the state of it"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestZeroPending(t *testing.T) {
	var p client.Pending
	if p.Method() != "" || p.Target() != "" || p.Round() != 0 || p.Questions() != nil {
		t.Errorf("got %v", p)
	}
	if err := p.Answer("x", client.Decline()); err == nil {
		t.Error("answered a question of an empty call")
	}
	if data, err := json.Marshal(p); err == nil {
		t.Errorf("got %s", data)
	}
}

// The JSON text shows everything, but printing shows nothing.
func TestPendingNeverPrintsItsState(t *testing.T) {
	var p client.Pending
	noError(t, json.Unmarshal([]byte(storedCall(t)), &p))
	var log strings.Builder
	for _, logger := range []*slog.Logger{slog.New(slog.NewJSONHandler(&log, nil)),
		slog.New(slog.NewTextHandler(&log, nil))} {
		logger.Info("pending", "call", p, "pointer", &p)
	}
	around := struct{ inner client.Pending }{p}
	var prints []any
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		prints = append(prints, fmt.Sprintf(verb, p), fmt.Sprintf(verb, &p),
			fmt.Sprintf(verb, around), fmt.Sprintf(verb, []any{p}))
	}
	prints = append(prints, log.String())
	testkit.CheckSecret(t, []byte("the state of it"), prints...)
	wantEqual(t, "the result", fmt.Sprintf("%v", &p),
		`pending tools/call "greet", round 1, 2 questions`)
}

// FuzzPending reads hostile texts. Accepted texts must survive storage and make valid requests.
func FuzzPending(f *testing.F) {
	seeds := []string{
		storedCall(f),
		`{"format":1,"method":"resources/read","params":{"uri":"u:1"},"round":3,"lastId":7,"asked":{"resultType":"input_required","inputRequests":{"dirs":` + listRoots + `},"requestState":""},"answers":{"dirs":{"roots":[]}}}`,
		`{"format":1,"method":"prompts/get","params":{"name":"p","_meta":{"a":1}},"round":1,"lastId":1,"asked":{"resultType":"input_required","inputRequests":{"say":` + sampling + `}},"answers":{"say":{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}}}`,
	}
	for _, seed := range seeds {
		if err := json.Unmarshal([]byte(seed), new(client.Pending)); err != nil {
			f.Fatalf("seed is no pending call: %v", err)
		}
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p client.Pending
		if p.UnmarshalJSON(data) != nil {
			return
		}
		text, err := json.Marshal(&p)
		if err != nil {
			t.Fatalf("accepted but not stored: %v", err)
		}
		var again client.Pending
		if err := again.UnmarshalJSON(text); err != nil {
			t.Fatalf("stored but not accepted: %v: %s", err, text)
		}
		if second, err := json.Marshal(&again); err != nil || string(second) != string(text) {
			t.Fatalf("stored anew: %v\n%s\n%s", err, text, second)
		}
		peer := script(`{"resultType":"complete","content":[],"contents":[],"messages":[]}`)
		opts := byHand()
		opts.MaxRounds = 1 << 30
		c, err := client.New(peer, opts)
		noError(t, err)
		defer func() { _ = c.Close() }()
		if _, _, err := c.Resume(t.Context(), &again); err == nil {
			metaOf(t, peer.requests()[0])
		}
	})
}
