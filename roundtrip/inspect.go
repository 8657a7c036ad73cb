package roundtrip

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/rondo-mcp/rondo/internal/inspection"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// Inspect gives the page of package server/inspect the use of limits and the contents of a pasted
// state, without answers, memos and authors' data. For any other context it does nothing.
func (f *Funnel) Inspect(ctx context.Context) {
	report := inspection.From(ctx)
	if report == nil {
		return
	}
	report.QuestionTTL = f.opts.RoundTTL
	if ring, ok := f.opts.Sealer.(keys.Describer); ok {
		report.Describe("Key that seals", ring.Primary())
	}
	used, bound := f.waits.calls.Usage()
	report.AddLimit("calls that wait for people", "roundtrip.Limits.Waiting", used, bound)
	used, bound = f.waits.bytes.Usage()
	report.AddBytes("bytes of their requests", "roundtrip", used, bound)
	if report.Sealed != "" {
		report.State = f.inspectState(ctx, report.Sealed)
	}
}

func (f *Funnel) inspectState(ctx context.Context, sealed string) *inspection.State {
	if len(sealed) > f.opts.Limits.StateBytes {
		return &inspection.State{Refused: string(words.ReasonTooLong)}
	}
	plaintext, err := f.opts.Sealer.Open(ctx, sealed)
	if err != nil {
		s := &inspection.State{Refused: string(sealReason(err))}
		if named, ok := errors.AsType[*keys.KeyError](err); ok {
			s.KeyID = named.ID[:min(len(named.ID), 64)]
		}
		return s
	}
	if len(plaintext) > 0 && plaintext[0] == handleLayout {
		return &inspection.State{Tables: []inspection.Table{{Name: "What it says", Rows: [][]string{
			{"Stored", "it names a state in the store, which only requests of its principal find"},
		}}}}
	}
	c, err := claims.Decode(plaintext, &claims.Claims{})
	if err != nil {
		return &inspection.State{Refused: string(words.ReasonMalformed)}
	}
	return &inspection.State{Tables: []inspection.Table{
		{Name: "What it says", Rows: describeClaims(c, len(plaintext))},
		{Name: "Keys", Head: []string{"Kind", "Key", "About", "Bytes"}, Rows: listParts(c)},
	}}
}

func describeClaims(c *claims.Claims, size int) [][]string {
	who := inspection.NameOf(c.Principal)
	if c.Principal.Issuer == credentialIssuer {
		who = "the holder of the credential that began the flow"
	}
	return [][]string{
		{"Who", who}, {"What", c.Method + " " + c.Target}, {"Audience", c.Audience},
		{"Flow", hex.EncodeToString(c.Flow[:])}, {"Round", strconv.Itoa(c.Round)},
		{"Sealed", c.Issued.Format(time.DateTime) + ", " + inspection.Ago(c.Issued)},
		{"Valid until", c.Expires.Format(time.DateTime)},
		{"The flow until", c.Deadline.Format(time.DateTime)},
		{"Visit agreed to", inspection.Ago(c.VisitSince)}, {"Version of the flow", c.Version},
		{"Application", c.App}, {"Earlier rounds by", c.OtherApp}, {"Bytes", strconv.Itoa(size)},
	}
}

func listParts(c *claims.Claims) (rows [][]string) {
	for i := range c.Asked {
		q := &c.Asked[i]
		rows = append(rows,
			[]string{"question", q.Key, string(q.Kind), strconv.Itoa(len(q.Schema))})
	}
	for i := range c.Answers {
		a := &c.Answers[i]
		rows = append(rows, []string{"answer", a.Key,
			string(a.Kind) + ", " + Outcome(a.Outcome).String(), strconv.Itoa(len(a.Content))})
	}
	for _, m := range c.Memos {
		rows = append(rows, []string{"memo", m.Key, "", strconv.Itoa(len(m.Value))})
	}
	return append(rows, []string{"author's state", "", "", strconv.Itoa(len(c.State))})
}
