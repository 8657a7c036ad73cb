//go:build node

package interop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
)

type behindDoor struct {
	gateway.Upstream
	calls   []doorCall
	effects func(t *testing.T) int // number of effects so far
}

// A doorCall is a call with the answers to its questions. want is part of the result.
type doorCall struct {
	request request
	answers answers
	want    string
}

// TestFrontDoorTable connects clients of five makes to servers of six, in all four pairings of
// eras. Every question is shown once, whatever the answer. Every call has its effect once: a
// handler that asks in place starts once, all others act once. The log has the table.
func TestFrontDoorTable(t *testing.T) {
	behind, clients := behindDoors(t), frontDoorClients()
	maps.Copy(clients, tsGuests(t))
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "eras\tclient\tupstream\tquestions shown\teffects")
	totals := map[string]*[4]int{}
	for _, name := range slices.Sorted(maps.Keys(behind)) {
		up := behind[name]
		t.Run(name, func(t *testing.T) {
			endpoint := startFrontDoor(t, up.Upstream)
			for _, client := range slices.Sorted(maps.Keys(clients)) {
				t.Run(client, func(t *testing.T) {
					shown, questions, effects := up.check(t, endpoint, clients[client])
					eras := client[strings.LastIndex(client, " ")+1:] + " to " +
						name[strings.LastIndex(name, " ")+1:]
					fmt.Fprintf(w, "%s\t%s\t%s\t%d of %d\t%d of %d\n", eras, client, name,
						shown, questions, effects, len(up.calls))
					if totals[eras] == nil {
						totals[eras] = new([4]int)
					}
					for i, n := range []int{shown, questions, effects, len(up.calls)} {
						totals[eras][i] += n
					}
				})
			}
		})
	}
	for _, eras := range slices.Sorted(maps.Keys(totals)) {
		n := totals[eras]
		fmt.Fprintf(w, "%s\tall\tall\t%d of %d\t%d of %d\n", eras, n[0], n[1], n[2], n[3])
	}
	_ = w.Flush()
	t.Logf("the table:\n%s", table.String())
}

func (up behindDoor) check(t *testing.T, endpoint string, connect guest) (shown, want, did int) {
	who := newPerson(t, nil)
	client, before := connect(t, endpoint, who), up.effects(t)
	for _, call := range up.calls {
		who.mu.Lock()
		who.answers, who.asked = call.answers, map[string]int{}
		who.mu.Unlock()
		got, err := client.do(context.WithoutCancel(within(t, patience)), call.request)
		if err != nil || !strings.Contains(got, call.want) {
			t.Errorf("%s: got %q, %v, want %q", call.request.Target, got, err, call.want)
		}
		who.wantAsked(1)
		for _, times := range who.asked {
			shown += times
		}
		want += len(call.answers)
	}
	did = up.effects(t) - before
	if shown != want || did != len(up.calls) {
		t.Errorf("%d of %d questions were shown, %d of %d effects", shown, want, did, len(up.calls))
	}
	return shown, want, did
}

func behindDoors(t *testing.T) map[string]behindDoor {
	t.Helper()
	effects := filepath.Join(t.TempDir(), "effects")
	t.Setenv(effectsFile, effects)
	all := map[string]behindDoor{}
	add := func(name string, up gateway.Upstream) {
		all[name] = behindDoor{up, scriptedCalls(), func(t *testing.T) int {
			return countIn(t, effects, "\n")
		}}
	}
	for name, up := range frontDoorUpstreams(t) {
		add(name, up)
	}
	dir := installed(t)
	for name, script := range map[string]string{"npm server": "modern", "npm sdk": "server"} {
		era := map[string]protocol.Era{"modern": protocol.Modern, "server": protocol.Legacy}[script]
		suffix := map[protocol.Era]string{protocol.Modern: "modern", protocol.Legacy: "legacy"}[era]
		up := gateway.Upstream{Name: "up", Unprefixed: frontDoorTools, Era: era,
			Connect: gateway.HTTP(startNode(t, script+".mjs", "http").Line(), nil)}
		add(name+" HTTP "+suffix, up)
		up.Connect = gateway.Command("env", effectsFile+"="+effects, dir.node(),
			filepath.Join("testdata", script+".mjs"), string(dir), "stdio")
		add(name+" process "+suffix, up)
	}
	everything := dir.file("@modelcontextprotocol", "server-everything", "dist", "index.js")
	// The server asks for roots when it is connected, whatever the call.
	up := gateway.Upstream{Name: "up", Era: protocol.Legacy,
		Refuse: []protocol.InputKind{protocol.KindListRoots}}
	endpoint, said := record(t, serveNodeEverything(t, dir, everything))
	up.Connect = gateway.HTTP(endpoint, nil)
	all["npm everything HTTP legacy"] = behindDoor{up, everythingCalls(),
		func(*testing.T) int { return legs(said(), protocol.MethodCallTool) }}
	sent := filepath.Join(t.TempDir(), "sent")
	up.Connect = gateway.Command("sh", "-c",
		"tee -a "+quote(sent)+" | "+quote(dir.node())+" "+quote(everything)+" stdio")
	all["npm everything process legacy"] = behindDoor{up, everythingCalls(),
		func(t *testing.T) int { return countIn(t, sent, `"`+protocol.MethodCallTool+`"`) }}
	return all
}

func serveNodeEverything(t *testing.T, dir nodeDir, script string) (endpoint string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	cmd := exec.Command(dir.node(), script, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	p := servertest.StartProcess(t, cmd)
	t.Cleanup(func() { _ = p.Cmd.Process.Signal(os.Interrupt) })
	p.Line() // wait until it starts
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			return "http://127.0.0.1:" + port + "/mcp"
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func countIn(t *testing.T, file, what string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(data, []byte(what))
}

// scriptedCalls has three dependent questions, a decline, a cancel, a visit, and a question to the
// model.
func scriptedCalls() []doorCall {
	return []doorCall{
		{tool("wizard", nil), answers{"Which region?": `{"name":"eu"}`,
			"How big in eu?": `{"cores":8}`, "Who is told?": `{"email":"ada@example.com"}`},
			"8 cores in eu for ada@example.com, saw eu"},
		{tool("deploy", map[string]string{"env": "north"}), answers{"Deploy to north?": "decline"},
			"left north alone: declined"},
		{tool("deploy", map[string]string{"env": "south"}), answers{"Deploy to south?": "cancel"},
			"left south alone: cancelled"},
		{tool("sign_in", nil), answers{"Sign in": "{}"}, "visit accepted"},
		{tool("summarize", nil), answers{"Summarize.": "It is short."},
			"model-1 says: It is short."},
	}
}

// everythingCalls are for server-everything, whose tools ask one question at most.
func everythingCalls() []doorCall {
	const prefix, form = "up_trigger-", "Please provide inputs for the following fields:"
	elicit := tool(prefix+"elicitation-request", map[string]string{})
	return []doorCall{
		{elicit, answers{form: `{"name":"ada","check":true}`}, "- Name: ada\n"},
		{elicit, answers{form: "decline"}, "User declined"},
		{elicit, answers{form: "cancel"}, "User cancelled"},
		{tool(prefix+"url-elicitation", map[string]string{"url": "https://example.com/in",
			"message": "Sign in"}), answers{"Sign in": "{}"}, "accept"},
		{tool(prefix+"sampling-request", map[string]string{"prompt": "Summarize."}),
			answers{"Resource trigger-sampling-request context: Summarize.": "It is short."},
			"It is short."},
	}
}

// tsGuests returns the TypeScript SDK's clients, the newer one in either era. Each has one
// connection at a time.
func tsGuests(t *testing.T) map[string]guest {
	t.Helper()
	newer, older := startTS(t, "client"), startTS(t, "sdk")
	of := func(ts *tsProcess, negotiate any) guest {
		return func(t *testing.T, endpoint string, who *person) peer {
			return ts.connect(t, who,
				map[string]any{"endpoint": endpoint, "mute": false, "negotiate": negotiate})
		}
	}
	return map[string]guest{
		"npm client modern": of(newer, map[string]string{"pin": modern}),
		"npm client legacy": of(newer, "legacy"), "npm sdk legacy": of(older, nil),
	}
}
