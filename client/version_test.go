package client_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// refusing answers the first n requests with an error and the others with a
// result.
func refusing(n int32, e *protocol.Error, result string) *fakePeer {
	var seen atomic.Int32
	return answering(func(req *protocol.Request) (*protocol.Response, error) {
		if seen.Add(1) <= n {
			return &protocol.Response{ID: req.ID, Error: e}, nil
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(result)}, nil
	})
}

func TestRefusedVersion(t *testing.T) {
	ours := []protocol.Version{protocol.V20260728}
	cases := []struct {
		name      string
		refusals  int32
		supported []protocol.Version
		requests  int
		failure   string // empty: none
	}{
		{"one that is spoken after all", 1, ours, 2, ""},
		{"among others", 1, []protocol.Version{"2030-01-01", protocol.V20260728}, 2, ""},
		{"twice", 2, ours, 2, "claims to speak"},
		{"none in common", 1, []protocol.Version{"2030-01-01"}, 1, "only 2030-01-01"},
		{"legacy ones only", 1, []protocol.Version{protocol.V20251125, protocol.V20250618}, 1, "only 2025-11-25, 2025-06-18"},
		{"none at all", 1, nil, 1, "unsupported protocol version"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			peer := refusing(c.refusals, protocol.UnsupportedVersion("2026-07-28", c.supported), done)
			r, err := callOnce(t, peer, nil)
			if c.failure == "" {
				wantDone(t, r, err)
			} else if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeUnsupportedProtocolVersion || !strings.Contains(err.Error(), c.failure) {
				t.Errorf("got %v, want %q", err, c.failure)
			}
			sent := peer.requests()
			if len(sent) != c.requests {
				t.Fatalf("got %d requests, want %d", len(sent), c.requests)
			}
			for i, req := range sent {
				if meta := metaOf(t, req); meta.Version != protocol.V20260728 || req.Mirror.Version != protocol.V20260728 {
					t.Errorf("request %d: got version %s, mirrored %s", i, meta.Version, req.Mirror.Version)
				}
				if i > 0 && req.ID == sent[0].ID {
					t.Errorf("request %d: id %s is used twice", i, req.ID)
				}
			}
		})
	}
}

func TestRefusedVersionOfAnyMethod(t *testing.T) {
	refusal := protocol.UnsupportedVersion("x", []protocol.Version{protocol.V20260728})
	t.Run("list", func(t *testing.T) {
		c := newClient(t, refusing(1, refusal, `{"tools":[]}`), nil)
		if _, err := c.ListTools(t.Context(), ""); err != nil {
			t.Error(err)
		}
	})
	t.Run("discover", func(t *testing.T) {
		c := newClient(t, refusing(1, refusal, `{"supportedVersions":["2026-07-28"],"capabilities":{}}`), nil)
		if _, err := c.Discover(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("begin", func(t *testing.T) {
		c := newClient(t, refusing(1, refusal, done), nil)
		if _, _, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "t"}); err != nil {
			t.Error(err)
		}
	})
}

func TestDraftErrorCodes(t *testing.T) {
	refusal := protocol.UnsupportedVersion("x", []protocol.Version{protocol.V20260728}).Draft()
	t.Run("on", func(t *testing.T) {
		r, err := callOnce(t, refusing(1, refusal, done), &client.Options{DraftErrorCodes: true})
		wantDone(t, r, err)
	})
	t.Run("off", func(t *testing.T) {
		peer := refusing(1, refusal, done)
		_, err := callOnce(t, peer, nil)
		if e, ok := protocol.AsError(err); !ok || e.Code != -32004 || len(peer.requests()) != 1 {
			t.Errorf("got %v after %d requests, want code -32004 after 1", err, len(peer.requests()))
		}
	})
	t.Run("missing capabilities", func(t *testing.T) {
		missing := protocol.MissingCapabilities(protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}})
		_, err := callOnce(t, refusing(1, missing.Draft(), done), &client.Options{DraftErrorCodes: true})
		e, ok := protocol.AsError(err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		if required, ok := e.RequiredCapabilities(); !ok || required.Roots == nil {
			t.Errorf("got %v, %v", required, ok)
		}
	})
}
