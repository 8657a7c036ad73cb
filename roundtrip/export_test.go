package roundtrip

import (
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	MaxStatelessCallers = maxStatelessCallers
	StatelessCallerTTL  = statelessCallerTTL
)

const MaxUnsolicited = maxUnsolicited

func (f *Funnel) StatelessCallers() int {
	f.stateless.mu.Lock()
	defer f.stateless.mu.Unlock()
	return f.stateless.counts.Len()
}

// VectorClaims are the fixed claims of the test vectors, so that a change of layout shows.
type VectorClaims struct {
	Call                      Call
	Audience                  string
	Issued, Expires, Deadline time.Time
}

// Append writes the claims: second round of a flow in which "region" was declined, "size" accepted,
// and "confirm" and "extra" are being asked.
func (v VectorClaims) Append(confirm, extra json.RawMessage) ([]byte, error) {
	arguments, err := claims.DigestArguments(v.Call.Arguments)
	if err != nil {
		return nil, err
	}
	confirmForm, err := form.Parse(confirm, form.Options{})
	if err != nil {
		return nil, err
	}
	extraForm, err := form.Parse(extra, form.Options{})
	if err != nil {
		return nil, err
	}
	c := &claims.Claims{
		Principal: v.Call.Principal, Method: v.Call.Method, Target: v.Call.Target,
		Audience: v.Audience, Arguments: arguments, Flow: [16]byte([]byte("0123456789abcdef")),
		Round: 2, RoundsIgnored: 0, Issued: v.Issued, Expires: v.Expires, Deadline: v.Deadline,
		Asked: []claims.Question{
			{Key: "confirm", Kind: protocol.KindElicitForm, Digest: confirmForm.Digest()},
			{Key: "extra", Kind: protocol.KindElicitForm, Digest: extraForm.Digest(),
				Schema: extraForm.Schema()},
			{Key: "visit", Kind: protocol.KindElicitURL},
		},
		Answers: []claims.Answer{
			{Key: "region", Kind: protocol.KindElicitForm, Outcome: claims.Outcome(Declined),
				Digest: confirmForm.Digest(), Round: 2},
			{Key: "size", Kind: protocol.KindElicitForm, Outcome: claims.Outcome(Accepted),
				Digest: confirmForm.Digest(), Round: 2,
				Content: json.RawMessage(`{"reason":"large"}`), Checked: true},
		},
		State: json.RawMessage(`"kept"`),
	}
	return c.AppendTo(nil), nil
}

func ReencodeClaims(data []byte) ([]byte, error) {
	c, err := claims.Decode(data, &claims.Claims{})
	if err != nil {
		return nil, err
	}
	return c.AppendTo(nil), nil
}

// Waiting returns how many calls wait, with how many bytes, and how many in sessions.
func Waiting(f *Funnel) (calls, bytes, sessions int64) {
	return f.waits.calls.Used(), f.waits.bytes.Used(), f.waits.sessions.Used()
}

// AppendFlow writes claims of flow style: third round of version "2", "region" answered and "size"
// declined in flow style, "old" in guard style, "quote" kept, "confirm" asked again because it had
// changed, "extra" asked in guard style. The round was traced.
func (v VectorClaims) AppendFlow(schema json.RawMessage) ([]byte, error) {
	arguments, err := claims.DigestArguments(v.Call.Arguments)
	if err != nil {
		return nil, err
	}
	f, err := form.Parse(schema, form.Options{})
	if err != nil {
		return nil, err
	}
	marked := func(key, message string, again bool) claims.Mark {
		q := Question{key: key, request: &protocol.ElicitForm{Message: message, Schema: f.Schema()},
			form: f}
		m, err := q.makeMark()
		if err != nil {
			panic(err)
		}
		m.Again = again
		return m
	}
	c := &claims.Claims{
		Principal: v.Call.Principal, Method: v.Call.Method, Target: v.Call.Target,
		Audience: v.Audience, Arguments: arguments, Flow: [16]byte([]byte("0123456789abcdef")),
		Round: 3, Issued: v.Issued, Expires: v.Expires, Deadline: v.Deadline,
		Span: claims.Span{Trace: [16]byte([]byte("a trace of a sea")),
			Span: [8]byte([]byte("one span"))},
		Asked: []claims.Question{
			{Key: "confirm", Kind: protocol.KindElicitForm, Digest: f.Digest(),
				Mark: marked("confirm", "confirm eu", true)},
			{Key: "extra", Kind: protocol.KindElicitURL},
		},
		Answers: []claims.Answer{
			{Key: "region", Kind: protocol.KindElicitForm, Outcome: claims.Outcome(Accepted),
				Digest: f.Digest(), Round: 2, Checked: true,
				Content: json.RawMessage(`{"reason":"eu"}`),
				Mark:    marked("region", "region ?", false)},
			{Key: "size", Kind: protocol.KindElicitForm, Outcome: claims.Outcome(Declined),
				Digest: f.Digest(), Round: 3, Mark: marked("size", "size ?", false)},
			{Key: "old", Kind: protocol.KindElicitForm, Outcome: claims.Outcome(Accepted),
				Digest: f.Digest(), Round: 2, Content: json.RawMessage(`{"reason":"guard"}`)},
		},
		Version: "2", Memos: []claims.Memo{{Key: "quote", Value: json.RawMessage(`1250`)}},
	}
	return c.AppendTo(nil), nil
}

// HandleOf returns only the plaintext of a handle.
func HandleOf(secret byte) []byte {
	handle := make([]byte, 1+handleBytes)
	for i := range handle {
		handle[i] = secret
	}
	handle[0] = handleLayout
	return handle
}

// Unlock returns id and state of a handle in the store.
func Unlock(p protocol.Principal, handle, plaintext []byte) (id string, data []byte) {
	id, box := deriveStoreKey(p, handle)
	return id, box.Seal(nil, make([]byte, box.NonceSize()), plaintext, []byte(id))
}

func DigestCredential(flow [16]byte, credential string) string {
	return digestCredential(flow, credential)
}
