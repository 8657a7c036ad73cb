package protocol_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// The function seeded fails unless a fuzz target has n seeds.
func seeded(f *testing.F, n int) {
	f.Helper()
	if n == 0 {
		f.Fatal("no seeds")
	}
}

func FuzzDecodeMessage(f *testing.F) {
	n := 0
	add := func(m protocol.Message) {
		raw, err := protocol.AppendMessage(nil, m)
		noError(f, err)
		f.Add(raw)
		n++
	}
	for method, list := range requests() {
		for _, p := range list {
			f.Add(requestOf(f, method, p))
			n++
		}
	}
	for _, s := range samples() {
		add(&protocol.Response{ID: protocol.StringID(s.name),
			Result: json.RawMessage(encoded(f, protocol.Latest, s.method, s.result))})
	}
	for _, e := range refusals() {
		add(&protocol.Response{Error: e})
	}
	add(&protocol.Notification{Method: protocol.NotifyToolsChanged})
	add(&protocol.Notification{Method: protocol.NotifyProgress,
		Params: json.RawMessage(`{"progressToken":1,"progress":0.5}`)})
	for _, test := range brokenTexts {
		f.Add([]byte(test.raw))
	}
	seeded(f, n)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := protocol.DecodeMessage(raw)
		if err != nil {
			if e, ok := protocol.AsError(err); !ok ||
				(e.Code != protocol.CodeParseError && e.Code != protocol.CodeInvalidRequest) {
				t.Fatalf("error %v", err)
			}
			var id protocol.ID
			switch m := m.(type) {
			case *protocol.Request:
				id, m.ID = m.ID, protocol.ID{}
			case *protocol.Response:
				id, m.ID = m.ID, protocol.ID{}
			}
			_, oneWay := m.(*protocol.Notification)
			if text := id.String(); m != nil && (id.IsZero() != oneWay || !oneWay && !json.Valid([]byte(text)) ||
				!reflect.ValueOf(m).Elem().IsZero()) {
				t.Fatalf("beside an error: id %s of %#v", text, m)
			}
			return
		}
		once, err := protocol.AppendMessage(nil, m)
		if err != nil {
			t.Fatalf("%q decodes as %#v, which does not encode: %v", raw, m, err)
		}
		again, err := protocol.DecodeMessage(once)
		if err != nil {
			t.Fatalf("%q encodes as %q, which does not decode: %v", raw, once, err)
		}
		twice, err := protocol.AppendMessage(nil, again)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%q and then %q, %v", once, twice, err)
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	methods := []string{protocol.MethodCallTool, protocol.MethodGetPrompt,
		protocol.MethodReadResource, protocol.MethodListTools}
	n := 0
	for _, s := range samples() {
		for _, method := range methods {
			if s.method == method {
				f.Add([]byte(encoded(f, protocol.Latest, method, s.result)))
				n++
			}
		}
	}
	seeded(f, n)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, method := range methods {
			r, err := protocol.DecodeResult(protocol.Latest, method, raw)
			if err != nil {
				if r != nil {
					t.Fatalf("%s: %#v beside %v", method, r, err)
				}
				continue
			}
			once, err := protocol.EncodeResult(protocol.Latest, method, r)
			if err != nil {
				t.Fatalf("%s: %q decodes as %#v, which does not encode: %v", method, raw, r, err)
			}
			again, err := protocol.DecodeResult(protocol.Latest, method, once)
			if err != nil {
				t.Fatalf("%s: %q encodes as %q, which does not decode: %v", method, raw, once, err)
			}
			if reflect.TypeOf(r) != reflect.TypeOf(again) {
				t.Fatalf("%s: %q was %T and is %T", method, raw, r, again)
			}
			twice, err := protocol.EncodeResult(protocol.Latest, method, again)
			if err != nil || string(once) != string(twice) {
				t.Fatalf("%s: %q and then %q, %v", method, once, twice, err)
			}
		}
	})
}

func FuzzDecodeParams(f *testing.F) {
	n := 0
	for method, list := range requests() {
		for _, p := range list {
			raw, err := protocol.EncodeParams(p)
			noError(f, err)
			f.Add(method, []byte(raw))
			n++
		}
	}
	seeded(f, n)
	f.Fuzz(func(t *testing.T, method string, raw []byte) {
		// Parameters reach DecodeParams within a message.
		whole := append([]byte(`{"jsonrpc":"2.0","method":"m","params":`), raw...)
		m, err := protocol.DecodeMessage(append(whole, '}'))
		if err != nil {
			protocol.DecodeParams(method, raw) // must not panic
			return
		}
		p, err := protocol.DecodeParams(method, m.(*protocol.Notification).Params)
		if err != nil {
			if _, ok := protocol.AsError(err); !ok {
				t.Fatalf("error %v", err)
			}
			return
		}
		once, err := protocol.EncodeParams(p)
		if err != nil {
			t.Fatalf("%q decodes as %#v, which does not encode: %v", raw, p, err)
		}
		again, err := protocol.DecodeParams(method, once)
		if err != nil {
			t.Fatalf("%q encodes as %q, which does not decode: %v", raw, once, err)
		}
		twice, err := protocol.EncodeParams(again)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%q and then %q, %v", once, twice, err)
		}
	})
}

func FuzzAnswers(f *testing.F) {
	n := 0
	for _, list := range answers() {
		for _, answer := range list {
			raw, err := answer.MarshalJSON()
			noError(f, err)
			f.Add(raw)
			n++
		}
	}
	seeded(f, n)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name := range answers() {
			answer, err := decodeAnswer(name, raw)
			if err != nil {
				continue
			}
			once, err := answer.MarshalJSON()
			if err != nil {
				t.Fatalf("%s: %q does not encode again: %v", name, raw, err)
			}
			again, err := decodeAnswer(name, once)
			if err != nil {
				t.Fatalf("%s: %q encodes as %q, which does not decode: %v", name, raw, once, err)
			}
			twice, err := again.MarshalJSON()
			if err != nil || string(once) != string(twice) {
				t.Fatalf("%s: %q and then %q, %v", name, once, twice, err)
			}
		}
	})
}
