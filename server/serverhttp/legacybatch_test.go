package serverhttp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const pinged = `{"jsonrpc":"2.0","method":"notifications/unknown"}`

func pingRequest(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) }

// ids returns the sorted ids of an array of responses.
func ids(t testing.TB, body string) []string {
	t.Helper()
	var all []struct {
		ID    json.RawMessage
		Error struct{ Code int }
	}
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var list []string
	for _, r := range all {
		list = append(list, fmt.Sprintf("%s:%d", r.ID, r.Error.Code))
	}
	slices.Sort(list)
	return list
}

func TestBatch(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	stateful, _ := serve(t, srv, nil)
	stateless, _ := serve(t, srv, &serverhttp.Options{StatelessLegacy: true})
	clients := map[string]*legacyClient{
		"session":   openSession(t, stateful, "2025-03-26"),
		"stateless": openSession(t, stateless, "2025-03-26"),
	}
	tests := []struct {
		name, body string
		status     int
		ids        []string // of the responses, with their error codes
	}{
		{"one", `[` + pingRequest(1) + `]`, 200, []string{"1:0"}},
		{"several", `[` + pingRequest(1) + `,` + pingRequest(2) + `,` + toolCall(3, "echo") + `]`, 200, []string{"1:0", "2:0", "3:0"}},
		{"mixed", `[` + pinged + `,` + pingRequest(1) + `,{"jsonrpc":"2.0","id":"x","result":{}}]`, 200, []string{"1:0"}},
		{"notifications", `[` + pinged + `,` + pinged + `]`, 202, nil},
		{"responses", `[{"jsonrpc":"2.0","id":"x","result":{}}]`, 202, nil},
		{"what is no message", `[` + pingRequest(1) + `,1,{},{"jsonrpc":"2.0","id":5},[]]`, 200, []string{"1:0", "5:-32600", ":-32600", ":-32600", ":-32600"}},
		{"nothing that is one", `[1]`, 200, []string{":-32600"}},
		{"initialize", `[` + initializeBody("2025-03-26") + `,` + pingRequest(1) + `]`, 200, []string{"0:-32600", "1:0"}},
		{"unknown method", `[{"jsonrpc":"2.0","id":1,"method":"x"}]`, 200, []string{"1:-32601"}},
	}
	for mode, c := range clients {
		for _, tt := range tests {
			t.Run(mode+", "+tt.name, func(t *testing.T) {
				response := c.post(tt.body)
				body := readAll(t, response)
				if response.StatusCode != tt.status || (tt.status == 202) != (body == "") {
					t.Fatalf("got status %d: %s", response.StatusCode, body)
				}
				if tt.status == 200 && !slices.Equal(ids(t, body), tt.ids) {
					t.Errorf("got %q, want %q: %s", ids(t, body), tt.ids, body)
				}
			})
		}
		t.Run(mode+", stream", func(t *testing.T) {
			response := c.post(`[` + toolCall(1, "notify") + `,` + pingRequest(2) + `,` + toolCall(3, "notify") + `]`)
			list := events(t, response.Body)
			response.Body.Close()
			all := strings.Join(list, "\n")
			if len(list) != 7 || strings.Count(all, `"progress":`) != 4 || strings.Count(all, `"result"`) != 3 {
				t.Errorf("got %q", list)
			}
		})
		for name, body := range map[string]string{
			"empty": `[]`, "cut off": `[` + pingRequest(1), "too many": `[` + strings.Repeat(pinged+",", 100) + pinged + `]`,
		} {
			if got := read(t, c.post(body)); got.status != 400 || got.Error == nil {
				t.Errorf("%s, %s: got status %d: %s", mode, name, got.status, got.body)
			}
		}
	}
	for _, version := range []string{"2024-11-05", "2025-06-18", "2025-11-25"} {
		for mode, ts := range map[string]*legacyClient{"session": openSession(t, stateful, version), "stateless": openSession(t, stateless, version)} {
			got := read(t, ts.post(`[`+pingRequest(1)+`]`, "MCP-Protocol-Version", version))
			if got.status != 400 || got.code() != -32600 {
				t.Errorf("%s, %s: got status %d: %s", mode, version, got.status, got.body)
			}
		}
	}
}

// TestBatchPush asks within a batch; the answers come in one, too.
func TestBatchPush(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	c := openSession(t, ts, "2025-03-26")
	go func() {
		for range 2 {
			<-steps.entered
		}
		for range 8 {
			steps.allow <- struct{}{}
		}
	}()
	f := c.flow("POST", `[`+toolCall(1, "steps")+`,`+toolCall(2, "steps")+`]`)
	results := 0
	for range 8 {
		if m := f.next(); m.Result != nil {
			results++
		}
	}
	f.end()
	if results != 2 {
		t.Errorf("got %d responses, want 2", results)
	}
}
