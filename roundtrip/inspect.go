package roundtrip

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/rondo-mcp/rondo/internal/inspection"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// Inspect tells the page of package server/inspect how full the limits are, and what a pasted state
// says, without answers, memos and what authors keep. For any other context it does nothing.
func (f *Funnel) Inspect(ctx context.Context) {
	report := inspection.From(ctx)
	if report == nil {
		return
	}
	calls, maxCalls := f.waits.calls.Usage()
	bytes, maxBytes := f.waits.bytes.Usage()
	report.Limits = append(report.Limits,
		inspection.Limit{Name: "calls that wait for people",
			Option: "roundtrip.Limits.Waiting", Used: calls, Bound: maxCalls},
		inspection.Limit{Name: "bytes of their requests",
			Option: "roundtrip.Limits.WaitingBytes", Used: bytes, Bound: maxBytes, Bytes: true})
	if report.Sealed != "" {
		report.State = f.inspectState(ctx, report.Sealed)
	}
}

func (f *Funnel) inspectState(ctx context.Context, sealed string) *inspection.State {
	refused := func(err error) *inspection.State {
		s := &inspection.State{Refused: string(sealReason(err))}
		if named, ok := errors.AsType[*keys.KeyError](err); ok {
			s.KeyID = named.ID[:min(len(named.ID), 64)]
		}
		return s
	}
	if len(sealed) > f.opts.Limits.StateBytes {
		return &inspection.State{Refused: "too_long"}
	}
	plaintext, err := f.opts.Sealer.Open(ctx, sealed)
	if err != nil {
		return refused(err)
	}
	if len(plaintext) > 0 && plaintext[0] == handleLayout {
		return &inspection.State{Stored: true, Bytes: len(plaintext)}
	}
	c, err := claims.Decode(plaintext, &claims.Claims{})
	if err != nil {
		return &inspection.State{Refused: "malformed"}
	}
	s := describeClaims(c)
	s.Bytes = len(plaintext)
	return s
}

func describeClaims(c *claims.Claims) *inspection.State {
	s := &inspection.State{
		Flow: hex.EncodeToString(c.Flow[:]), Who: inspection.NameOf(c.Principal), Method: c.Method,
		Target: c.Target, Audience: c.Audience, App: c.App, OtherApp: c.OtherApp,
		FlowVersion: c.Version, Round: c.Round, Issued: c.Issued, Expires: c.Expires,
		Deadline: c.Deadline, VisitedSince: c.VisitSince,
	}
	if c.Principal.Issuer == credentialIssuer {
		s.Who = "the holder of the credential that began the flow"
	}
	for i := range c.Asked {
		q := &c.Asked[i]
		s.Parts = append(s.Parts, inspection.Part{Kind: "question", Key: q.Key,
			Note: string(q.Kind), Bytes: len(q.Schema)})
	}
	for i := range c.Answers {
		a := &c.Answers[i]
		s.Parts = append(s.Parts, inspection.Part{Kind: "answer", Key: a.Key,
			Note: string(a.Kind) + ", " + Outcome(a.Outcome).String(), Bytes: len(a.Content)})
	}
	for _, m := range c.Memos {
		s.Parts = append(s.Parts, inspection.Part{Kind: "memo", Key: m.Key, Bytes: len(m.Value)})
	}
	if c.State != nil {
		s.Parts = append(s.Parts, inspection.Part{Kind: "author's state", Bytes: len(c.State)})
	}
	return s
}
