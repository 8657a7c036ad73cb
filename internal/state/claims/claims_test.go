package claims_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

// vectors are written by roundtrip's TestTheLayoutOfClaims and TestTheLayoutOfFlowClaims.
const (
	guardVectors = "testdata/claims.txt"
	flowVectors  = "testdata/flow.txt"
)

// readVectors reads lines of named hexadecimal values.
func readVectors(t testing.TB, path string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	noError(t, err)
	out := map[string][]byte{}
	for _, block := range strings.Split(string(text), "\n\n") {
		head, dump, named := strings.Cut(strings.TrimSpace(block), "\n")
		if name, ok := strings.CutPrefix(head, "name: "); ok && named {
			out[name], err = hex.DecodeString(strings.ReplaceAll(dump, "\n", ""))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	return out
}

func vector(t testing.TB, path, name string) []byte {
	t.Helper()
	data := readVectors(t, path)[name]
	if len(data) == 0 {
		t.Fatalf("%s holds no vector %q", path, name)
	}
	return data
}

func reencode(data []byte) ([]byte, error) {
	c, err := claims.Decode(data, &claims.Claims{})
	if err != nil {
		return nil, err
	}
	return c.AppendTo(nil), nil
}

// The function at returns the vectors' base time plus hours.
func at(hours int) time.Time {
	return time.Date(2000, 1, 1, hours, 0, 0, 0, time.UTC)
}

func parseForm(t testing.TB, schema string) *form.Form {
	t.Helper()
	f, err := form.Parse([]byte(schema), form.Options{})
	noError(t, err)
	return f
}

const reasonForm = `{"type":"object","properties":{"reason":{"type":"string","minLength":2}},` +
	`"required":["reason"]}`

// A binding has the values that differ between the vectors of guard style.
type binding struct {
	name      string
	principal protocol.Principal
	audience  string
	arguments string
}

var (
	authenticated = binding{"authenticated",
		protocol.Principal{Issuer: "https://issuer.example", Subject: "ada"},
		"https://mcp.example", `{"env":"prod"}`}
	local = binding{"local, no arguments, no audience", protocol.LocalPrincipal(), "", ""}
)

func guardClaims(t testing.TB, b binding) *claims.Claims {
	t.Helper()
	arguments, err := claims.DigestArguments(json.RawMessage(b.arguments))
	noError(t, err)
	reason := parseForm(t, reasonForm)
	number := parseForm(t, `{"type":"object","properties":{"n":{"type":"integer"}}}`)
	return &claims.Claims{
		Principal: b.principal, Method: protocol.MethodCallTool, Target: "deploy",
		Audience: b.audience, Arguments: arguments, Flow: [16]byte([]byte("0123456789abcdef")),
		Round: 2, Issued: at(1), Expires: at(2), Deadline: at(25),
		Asked: []claims.Question{
			{Key: "confirm", Kind: protocol.KindElicitForm, Digest: reason.Digest()},
			{Key: "extra", Kind: protocol.KindElicitForm, Digest: number.Digest(),
				Schema: number.Schema()},
			{Key: "visit", Kind: protocol.KindElicitURL},
		},
		Answers: []claims.Answer{
			{Key: "region", Kind: protocol.KindElicitForm, Outcome: claims.Declined,
				Digest: reason.Digest(), Round: 2},
			{Key: "size", Kind: protocol.KindElicitForm, Outcome: claims.Accepted,
				Digest: reason.Digest(), Round: 2, Checked: true,
				Content: json.RawMessage(`{"reason":"large"}`)},
		},
		State: json.RawMessage(`"kept"`),
	}
}

// TestClaimsAreReadAsWritten checks the layout against the vectors, in both directions.
func TestClaimsAreReadAsWritten(t *testing.T) {
	for _, b := range []binding{authenticated, local} {
		t.Run(b.name, func(t *testing.T) {
			data, want := vector(t, guardVectors, b.name), guardClaims(t, b)
			if got := want.AppendTo(nil); !bytes.Equal(got, data) {
				t.Errorf("the layout has changed: give it a new number, and see "+
					"internal/design/state.md\n got %x\nwant %x", got, data)
			}
			got, err := claims.Decode(data, &claims.Claims{})
			noError(t, err)
			got.Issued, got.Expires, got.Deadline = got.Issued.UTC(), got.Expires.UTC(),
				got.Deadline.UTC()
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestClaimsOfFlowStyleAreReadAsWritten(t *testing.T) {
	data := vector(t, flowVectors, "flow")
	c, err := claims.Decode(data, &claims.Claims{})
	noError(t, err)
	memos := []claims.Memo{{Key: "quote", Value: json.RawMessage(`1250`)}}
	if c.Version != "2" || c.Round != 3 || !reflect.DeepEqual(c.Memos, memos) {
		t.Errorf("version %q, round %d, memos %q", c.Version, c.Round, c.Memos)
	}
	if string(c.Span.Trace[:]) != "a trace of a sea" || string(c.Span.Span[:]) != "one span" {
		t.Errorf("the round was traced as %q", c.Span)
	}
	if m := c.Asked[0].Mark; !m.Set || !m.Again || m.PromptDigest == [16]byte{} {
		t.Errorf("the question that is asked again has the mark %+v", m)
	}
	if m := c.Answers[0].Mark; !m.Set || m.Again {
		t.Errorf("the answer of flow style has the mark %+v", m)
	}
	if got := c.AppendTo(nil); !bytes.Equal(got, data) {
		t.Errorf("written again as %x, want %x", got, data)
	}
}

// No link is possible to a trace or span with a zero id.
func TestHalfASpanIsNone(t *testing.T) {
	c := guardClaims(t, local)
	none := c.AppendTo(nil)
	for _, half := range []claims.Span{{Trace: [16]byte{1}}, {Span: [8]byte{1}}} {
		if c.Span = half; !bytes.Equal(c.AppendTo(nil), none) {
			t.Errorf("%v is written", half)
		}
	}
	c.Span = claims.Span{Trace: [16]byte{1}, Span: [8]byte{2}}
	data := c.AppendTo(nil)
	at := bytes.Index(data, append([]byte{1}, c.Span.Trace[:]...))
	for _, zero := range []int{at + 1, at + 17} { // first byte of either
		changed := bytes.Clone(data)
		changed[zero] = 0
		_, err := claims.Decode(changed, &claims.Claims{})
		testkit.WantIs(t, "half a span", err, claims.ErrMalformed)
	}
}

func TestEncodedSizeIsEnough(t *testing.T) {
	for _, c := range []*claims.Claims{guardClaims(t, authenticated), guardClaims(t, local), {}} {
		if n := len(c.AppendTo(nil)); n > c.EncodedSize() {
			t.Errorf("%d bytes are written, %d expected", n, c.EncodedSize())
		}
	}
}

func TestOtherLayoutsAreToldApart(t *testing.T) {
	data := vector(t, guardVectors, authenticated.name)
	for _, test := range []struct {
		name string
		data []byte
		want error
	}{
		{"the layout before", slices.Concat([]byte{3}, data[1:]), claims.ErrLayout},
		{"the next", slices.Concat([]byte{5}, data[1:]), claims.ErrLayout},
		{"nothing", nil, claims.ErrMalformed},
		{"a byte behind", slices.Concat(data, []byte{0}), claims.ErrMalformed},
		{"an anonymous principal with names", slices.Concat(data[:1], []byte{0}, data[2:]),
			claims.ErrMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := claims.Decode(test.data, &claims.Claims{})
			testkit.WantIs(t, "decoded", err, test.want)
		})
	}
}

// TestClaimsHaveOneEncoding changes each byte of valid claims to each other value, and pads
// possible numbers. Whatever is still read must be written identically.
func TestClaimsHaveOneEncoding(t *testing.T) {
	honest := guardClaims(t, authenticated)
	honest.Span = claims.Span{Trace: [16]byte{15: 1}, Span: [8]byte{1}}
	data := honest.AppendTo(nil)
	check := func(changed []byte) bool {
		again, err := reencode(changed)
		if err == nil && !bytes.Equal(again, changed) {
			t.Errorf("%x is read, and written again as %x", changed, again)
		}
		return err == nil
	}
	if !check(data) {
		t.Fatal("honest claims are refused")
	}
	for i := range data {
		changed := bytes.Clone(data)
		for b := range 256 {
			changed[i] = byte(b)
			check(changed)
		}
		check(slices.Concat(data[:i], []byte{data[i] | 0x80, 0}, data[i+1:]))
		if check(data[:i]) {
			t.Errorf("claims of %d bytes are read", i)
		}
	}
	// Key, kind, outcome: impossible outcomes are refused.
	outcome := bytes.Index(data, []byte("region")) + len("region") + 1
	for _, b := range []byte{0, byte(claims.Cancelled) + 1, 255} {
		changed := bytes.Clone(data)
		changed[outcome] = b
		if check(changed) {
			t.Errorf("an answer of outcome %d is read", b)
		}
	}
}

func TestFlowClaimsHaveOneEncoding(t *testing.T) {
	head := append([]byte{4, 0, 0, 0, 0, 0, 0}, make([]byte, 32+16)...)
	// round, unheard, visits, three times, none of a visit, no span, no version of the application
	head = append(head, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for name, tc := range map[string]struct {
		tail []byte
		want bool
	}{
		"a version":             {[]byte{0, 0, 0, 1, 'v', 0}, true},
		"a memo":                {[]byte{0, 0, 0, 0, 1, 1, 'k', 1, '1'}, true},
		"nothing of flow style": {[]byte{0, 0, 0, 0, 0}, true},
		"no end":                {[]byte{0, 0, 0, 1, 'v'}, false},
		"a byte behind":         {[]byte{0, 0, 0, 1, 'v', 0, 0}, false},
		"a memo cut":            {[]byte{0, 0, 0, 1, 'v', 1, 1, 'k', 2, '1'}, false},
		"a million memos":       {[]byte{0, 0, 0, 1, 'v', 0xff, 0xff, 0x3f}, false},
		"an unmarked question":  {[]byte{1, 1, 'q', 4, 0, 0, 0, 1, 'v', 0}, true},
		"no mark":               {[]byte{1, 1, 'q', 4, 0, 0, 0, 0}, false},
		"an unknown mark": {append(append([]byte{1, 1, 'q', 4, 3}, make([]byte, 16)...), 0, 0,
			0, 0), false},
		"a marked question": {append(append([]byte{1, 1, 'q', 4, 2}, make([]byte, 16)...), 0, 0,
			0, 0), true},
	} {
		t.Run(name, func(t *testing.T) {
			data := append(bytes.Clone(head), tc.tail...)
			again, err := reencode(data)
			if (err == nil) != tc.want || (err == nil && !bytes.Equal(again, data)) {
				t.Errorf("%x, %v, want it read: %v", again, err, tc.want)
			}
		})
	}
}

// FuzzDecode decodes junk, as from a foreign sealer. Whatever it reads must be written identically.
func FuzzDecode(f *testing.F) {
	full, flow := vector(f, guardVectors, authenticated.name), vector(f, flowVectors, "flow")
	for _, seed := range [][]byte{
		full, vector(f, guardVectors, local.name), flow, full[:len(full)/2],
		flow[:len(flow)-1], append(bytes.Clone(flow), 0), bytes.Repeat([]byte{0xff}, 80),
		append([]byte{3, 0}, make([]byte, 70)...), {3},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if again, err := reencode(data); err == nil && !bytes.Equal(again, data) {
			t.Errorf("%x is read, and written again as %x", data, again)
		}
	})
}

// An unseen refusal is carried with its action, and no other number than the four is read.
func TestOutcomesThatStatesCarry(t *testing.T) {
	for outcome := range claims.Outcome(8) {
		c := guardClaims(t, local)
		c.Answers[0].Outcome, c.Answers[0].Content = outcome, json.RawMessage("decline")
		got, err := claims.Decode(c.AppendTo(nil), c)
		carried := outcome == claims.Accepted || outcome == claims.Declined ||
			outcome == claims.Cancelled || outcome == claims.Unseen
		switch {
		case carried != (err == nil):
			t.Errorf("outcome %d: %v", outcome, err)
		case carried && (got.Answers[0].Outcome != outcome ||
			string(got.Answers[0].Content) != "decline"):
			t.Errorf("outcome %d is read as %+v", outcome, got.Answers[0])
		}
	}
}

var noError = testkit.NoError
