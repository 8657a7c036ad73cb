//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package gosdk_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// A resource's questions say nothing about how long they may be kept.
func TestQuestionsOfAResourceHaveNoCacheHints(t *testing.T) {
	for _, s := range styles() {
		t.Run(s.name, func(t *testing.T) {
			dialWire(t, serverOf(t, s)).send(protocol.MethodReadResource,
				`{"uri":"vault://codes"}`).
				onlyKey()
		})
	}
}

// What took an answer is for nobody else, and not for later: clients are known
// to keep what they may not.
func TestAnsweredResourceIsNotCached(t *testing.T) {
	read := func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult,
		error) {
		if _, err := gosdk.Elicit(ctx, req.Session, formQuestion()); err != nil {
			return nil, err
		}
		result := resourceText(req.Params.URI, "secret")
		result.Cacheable = mcp.Cacheable{TTLMs: 60_000, CacheScope: "public"}
		return result, nil
	}
	server := single(t, nil)
	server.AddResource(&mcp.Resource{Name: "r", URI: "vault://codes"}, read)
	w := dialWire(t, server)
	first := w.send(protocol.MethodReadResource, `{"uri":"vault://codes"}`)
	got := w.send(protocol.MethodReadResource, `{"uri":"vault://codes","inputResponses":`+accepts(first.onlyKey())+`,"requestState":`+string(first.member("requestState"))+`}`)
	if string(got.member("cacheScope")) != `"private"` || string(got.member("ttlMs")) != "0" {
		t.Errorf("got %s", got.body)
	}
	for _, revision := range []string{modern, legacy} {
		who := newPerson(t, map[string]string{"Sure?": `{"reason":"because"}`})
		c := sdkOver(t, server, who, revision)
		for range 2 {
			if got, err := c.do(within(t), "vault://codes"); err != nil || got != "secret" {
				t.Errorf("%s: got %q, %v", revision, got, err)
			}
		}
		who.wantAsked(2)
	}
}
