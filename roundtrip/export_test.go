package roundtrip

import (
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/protocol"
)

// MaxLosers and LoserTTL bound the table of callers that lose their state.
const (
	MaxStatelessCallers = maxStatelessCallers
	StatelessCallerTTL  = statelessCallerTTL
)

// MaxCold bounds the answers that are taken unasked.
const MaxUnsolicited = maxUnsolicited

// StatelessCallers returns how many callers are known to lose their state.
func (f *Funnel) StatelessCallers() int {
	f.stateless.mu.Lock()
	defer f.stateless.mu.Unlock()
	return f.stateless.counts.Len()
}

// VectorClaims are the claims of the test vectors: fixed in everything, so that
// a change of the layout shows.
type VectorClaims struct {
	Call                      Call
	Audience                  string
	Issued, Expires, Deadline time.Time
}

// Append writes the claims: second round of a flow in which "region" has been
// declined, "size" accepted, and "confirm" and "extra" are being asked.
func (v VectorClaims) Append(confirm, extra json.RawMessage) ([]byte, error) {
	arguments, err := digestArguments(v.Call.Arguments)
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
	c := &claims{
		principal: v.Call.Principal, method: v.Call.Method, target: v.Call.Target,
		audience: v.Audience, arguments: arguments, flow: [16]byte([]byte("0123456789abcdef")),
		round: 2, roundsIgnored: 0, issued: v.Issued, expires: v.Expires, deadline: v.Deadline,
		asked: []carriedQuestion{
			{key: "confirm", kind: protocol.KindElicitForm, digest: confirmForm.Digest()},
			{key: "extra", kind: protocol.KindElicitForm, digest: extraForm.Digest(),
				schema: extraForm.Schema()},
			{key: "visit", kind: protocol.KindElicitURL},
		},
		answers: []*answer{
			{key: "region", kind: protocol.KindElicitForm, outcome: Declined,
				digest: confirmForm.Digest(), round: 2},
			{key: "size", kind: protocol.KindElicitForm, outcome: Accepted,
				digest: confirmForm.Digest(), round: 2,
				content: json.RawMessage(`{"reason":"large"}`), checked: true},
		},
		state: json.RawMessage(`"kept"`),
	}
	return c.appendTo(nil), nil
}

// ReencodeClaims decodes claims and encodes what it read.
func ReencodeClaims(data []byte) ([]byte, error) {
	c, err := decodeClaims(data, &claims{})
	if err != nil {
		return nil, err
	}
	return c.appendTo(nil), nil
}

// Waiting returns how many calls wait, with how many bytes, and how many of them in sessions.
func Waiting(f *Funnel) (calls, bytes, sessions int64) {
	return f.waits.calls.Used(), f.waits.bytes.Used(), f.waits.sessions.Used()
}

// AppendFlow writes claims of flow style: third round of a flow of
// version "2" in which "region" has been answered and "size" declined in flow
// style, "old" in guard style, "quote" is kept, and "confirm" is being asked
// once more because it had changed, "extra" in guard style.
func (v VectorClaims) AppendFlow(schema json.RawMessage) ([]byte, error) {
	arguments, err := digestArguments(v.Call.Arguments)
	if err != nil {
		return nil, err
	}
	f, err := form.Parse(schema, form.Options{})
	if err != nil {
		return nil, err
	}
	marked := func(key, message string, again bool) journalMark {
		q := Question{key: key, request: &protocol.ElicitForm{Message: message, Schema: f.Schema()},
			form: f}
		m, err := q.makeMark()
		if err != nil {
			panic(err)
		}
		m.again = again
		return m
	}
	c := &claims{
		principal: v.Call.Principal, method: v.Call.Method, target: v.Call.Target,
		audience: v.Audience, arguments: arguments, flow: [16]byte([]byte("0123456789abcdef")),
		round: 3, issued: v.Issued, expires: v.Expires, deadline: v.Deadline,
		asked: []carriedQuestion{
			{key: "confirm", kind: protocol.KindElicitForm, digest: f.Digest(),
				mark: marked("confirm", "confirm eu", true)},
			{key: "extra", kind: protocol.KindElicitURL},
		},
		answers: []*answer{
			{key: "region", kind: protocol.KindElicitForm, outcome: Accepted, digest: f.Digest(),
				round: 2, checked: true,
				content: json.RawMessage(`{"reason":"eu"}`), mark: marked("region", "region ?", false)},
			{key: "size", kind: protocol.KindElicitForm, outcome: Declined, digest: f.Digest(),
				round: 3, mark: marked("size", "size ?", false)},
			{key: "old", kind: protocol.KindElicitForm, outcome: Accepted, digest: f.Digest(), round: 2, content: json.RawMessage(`{"reason":"guard"}`)},
		},
		version: "2", memos: []memo{{"quote", json.RawMessage(`1250`)}},
	}
	return c.appendTo(nil), nil
}

// HandleOf returns the plaintext of a handle, and of nothing else.
func HandleOf(secret byte) []byte {
	handle := make([]byte, 1+handleBytes)
	for i := range handle {
		handle[i] = secret
	}
	handle[0] = handleLayout
	return handle
}

// Unlock returns where the store keeps what a handle stands for, and how.
func Unlock(p protocol.Principal, handle, plaintext []byte) (id string, data []byte) {
	id, box := deriveStoreKey(p, handle)
	return id, box.Seal(nil, make([]byte, box.NonceSize()), plaintext, []byte(id))
}
