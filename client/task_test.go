package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"github.com/rondo-mcp/rondo/server/tasks"
)

type taskName struct {
	Name string `json:"name"`
}

// serveTask serves a tool that asks a question, becomes a task, asks twice more and greets.
func serveTask(t *testing.T) *servertest.PipeServer {
	t.Helper()
	srv, err := server.New(&server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1}})
	noError(t, err)
	added, err := tasks.New(srv, nil)
	noError(t, err)
	server.AddRawTool(srv, server.Tool{Name: "greet", Task: server.TaskCan},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			names := ""
			for _, key := range []string{"one", "two", "three"} {
				in, err := roundtrip.Ask[taskName](ctx, key, "Name "+key+"?")
				if err != nil {
					return nil, err
				}
				names += in.Name
				if key == "one" {
					if err := roundtrip.BeginTask(ctx); err != nil {
						return nil, err
					}
				}
			}
			return server.Text(names), nil
		})
	handler, err := serverhttp.New(srv, nil)
	noError(t, err)
	s := servertest.ServePipe(t, handler)
	t.Cleanup(func() {
		s.Close()
		_ = handler.Shutdown(context.Background())
		_ = added.Shutdown(context.Background())
		srv.Close()
	})
	return s
}

func dialTask(t *testing.T, s *servertest.PipeServer, path string, tasks bool,
	asked *[]string) *client.Client {
	t.Helper()
	peer, err := clienthttp.New(servertest.PipeURL+path,
		&clienthttp.Options{HTTPClient: s.Client()})
	noError(t, err)
	c, err := client.New(peer, &client.Options{Tasks: tasks,
		ElicitForm: func(_ context.Context, q *client.FormQuestion) (elicited, error) {
			*asked = append(*asked, q.Key)
			return client.Accept(taskName{q.Key[:1]})
		}})
	noError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func textOf(t *testing.T, r *protocol.CallToolResult, err error) string {
	t.Helper()
	noError(t, err)
	return r.Content[0].(*protocol.TextContent).Text
}

func TestCallToolFollowsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveTask(t)
		for _, declares := range []bool{true, false} {
			var asked []string
			c := dialTask(t, s, "", declares, &asked)
			result, err := c.CallTool(t.Context(), "greet", nil)
			if text := textOf(t, result, err); text != "ott" || len(asked) != 3 {
				t.Errorf("declares %t: %q after %v", declares, text, asked)
			}
		}
	})
}

func TestTaskIsFollowedInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveTask(t)
		var asked []string
		first := dialTask(t, s, "", true, &asked)
		done, task, err := first.BeginTask(t.Context(), &protocol.CallToolParams{Name: "greet"})
		if err != nil || done != nil {
			t.Fatal(done, err)
		}
		enough := errors.New("enough")
		var stored []byte
		_, err = first.FollowTask(t.Context(), task, func(task *client.Task) error {
			stored, err = json.Marshal(task)
			noError(t, err)
			return enough
		})
		if !errors.Is(err, enough) {
			t.Fatal(err)
		}
		first.Close()
		second := dialTask(t, s, "", true, &asked)
		var read client.Task
		noError(t, json.Unmarshal(stored, &read))
		result, err := second.FollowTask(t.Context(), &read, nil)
		if text := textOf(t, result, err); text != "ott" || len(asked) != 3 {
			t.Errorf("%q after %v", text, asked)
		}
		other := dialTask(t, s, "elsewhere", true, &asked)
		if _, err := other.FollowTask(t.Context(), &read, nil); err == nil {
			t.Error("a task of another server was followed")
		}
	})
}

const (
	taskTimes = `"createdAt":"2026-11-01T10:00:00Z",` +
		`"lastUpdatedAt":"2026-11-01T10:00:00Z","ttlMs":null`
	taskHead = `"resultType":"complete","taskId":"t1",` + taskTimes + `,"pollIntervalMs":2000,`
	isHandle = `{"resultType":"task","taskId":"t1",` + taskTimes +
		`,"pollIntervalMs":2000,"status":"working"}`
	isWorking = `{` + taskHead + `"status":"working"}`
	isDone    = `{` + taskHead + `"status":"completed","result":` + done + `}`
)

func isAsking(key string) string {
	return fmt.Sprintf(`{%s"status":"input_required","inputRequests":{%q:%s}}`, taskHead, key,
		nameForm)
}

// A slippingServer returns a handle, and answers the n-th poll with get(n).
type slippingServer struct {
	fakePeer
	begun              time.Time
	polled             []time.Duration // times since the begin
	updated, cancelled int
	every              time.Duration // between two announcements, 0: no announcements
	busy               int           // which update is refused as busy, 0: none
}

func (s *slippingServer) announce(ctx context.Context, id protocol.ID, back protocol.Back) error {
	say := func(method, params string) {
		_ = back.Notify(ctx, &protocol.Notification{Method: method, Params: json.RawMessage(
			`{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id.String() + `},` + params)})
	}
	say(protocol.NotifyAcknowledged, `"notifications":{"taskIds":["t1"]}}`)
	for ctx.Err() == nil {
		time.Sleep(s.every)
		say(protocol.NotifyTask, isWorking[1:])
	}
	return ctx.Err()
}

func newSlippingServer(handle string, get func(n int) string) *slippingServer {
	s := &slippingServer{begun: time.Now()}
	s.handle = func(ctx context.Context, req *protocol.Request, back protocol.Back) (
		*protocol.Response, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		result := `{"resultType":"complete"}`
		switch req.Method {
		case protocol.MethodGetTask:
			s.polled = append(s.polled, time.Since(s.begun))
			result = get(len(s.polled))
		case protocol.MethodUpdateTask:
			if s.updated++; s.updated == s.busy {
				return refuse(req, protocol.Errorf(
					protocol.CodeBusy, "busy"))
			}
		case protocol.MethodCancelTask:
			s.cancelled++
		case protocol.MethodListen:
			if s.every > 0 {
				s.mu.Unlock()
				defer s.mu.Lock()
				return nil, s.announce(ctx, req.ID, back)
			}
			return refuse(req, protocol.Errorf(
				protocol.CodeMethodNotFound, "method not found"))
		default:
			result = handle
		}
		return reply(req, result)
	}
	return s
}

// follow calls a tool in fake time, and returns how many questions reached the user.
func (s *slippingServer) follow(t *testing.T) (asked int32, err error) {
	t.Helper()
	var n atomic.Int32
	opts := countingForm(&n)
	opts.Tasks = true
	_, err = callOnce(t, s, opts)
	return n.Load(), err
}

func TestTasksOfServersThatSlip(t *testing.T) {
	always := func(text string) func(int) string { return func(int) string { return text } }
	for name, test := range map[string]struct {
		get       func(n int) string
		cancelled int // number of the client's tasks/cancel requests
	}{
		"another id": {always(`{"resultType":"complete","taskId":"t2",` + taskTimes +
			`,"status":"working"}`), 1},
		"another createdAt": {always(`{"resultType":"complete","taskId":"t1",` +
			`"createdAt":"2026-11-01T10:00:01Z","lastUpdatedAt":"2026-11-01T10:00:01Z",` +
			`"ttlMs":null,"status":"working"}`), 1},
		"unknown status":           {always(`{` + taskHead + `"status":"paused"}`), 1},
		"no status":                {always(`{` + taskHead + `"x":1}`), 1},
		"completed without result": {always(`{` + taskHead + `"status":"completed"}`), 1},
		"failed without error":     {always(`{` + taskHead + `"status":"failed"}`), 1},
		"asks nothing":             {always(`{` + taskHead + `"status":"input_required"}`), 1},
		"a handle again":           {always(isHandle), 1},
		"no object":                {always(`[]`), 1},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newSlippingServer(isHandle, func(n int) string {
				if n == 3 { // a client that accepts the wrong answer comes to an end
					return isDone
				}
				return test.get(n)
			})
			_, err := s.follow(t)
			if !isResponseError(err) {
				t.Errorf("error %v, want that of a wrong response", err)
			}
			if s.cancelled != test.cancelled || len(s.polled) != 1 {
				t.Errorf("%d polls, cancelled %d times", len(s.polled), s.cancelled)
			}
		})
	}
}

// Another spelling of a creation time is the same task.
func TestCreationIsComparedAsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlippingServer(isHandle, func(int) string {
			return `{"resultType":"complete","taskId":"t1","createdAt":"2026-11-01T12:00:00.000` +
				`+02:00","lastUpdatedAt":"2026-11-01T10:00:00Z","ttlMs":null,` +
				`"status":"completed","result":` + done + `}`
		})
		_, err := s.follow(t)
		noError(t, err)
	})
}

func TestPollsWaitAsTheServerWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlippingServer(isHandle, func(n int) string {
			switch n {
			case 1:
				return isWorking
			case 2: // from now on the poll interval is 40 s
				return `{"resultType":"complete","taskId":"t1",` + taskTimes +
					`,"pollIntervalMs":40000,"status":"working"}`
			case 3: // too short, then too long
				return `{"resultType":"complete","taskId":"t1",` + taskTimes +
					`,"pollIntervalMs":1,"status":"working"}`
			case 4:
				return `{"resultType":"complete","taskId":"t1",` + taskTimes +
					`,"pollIntervalMs":86400000,"status":"working"}`
			case 5: // no interval
				return `{"resultType":"complete","taskId":"t1",` + taskTimes +
					`,"status":"working"}`
			}
			return isDone
		})
		_, err := s.follow(t)
		noError(t, err)
		last := time.Duration(0)
		for i, want := range []time.Duration{2 * time.Second, 2 * time.Second, 40 * time.Second,
			100 * time.Millisecond, time.Minute, time.Second} {
			waited := s.polled[i] - last
			last = s.polled[i]
			if waited < want || waited > want+want/8 {
				t.Errorf("poll %d after %v, want %v and up to an eighth", i+1, waited, want)
			}
		}
	})
}

// After an announced change the client polls at once, but at most ten times a second.
func TestServerThatAnnouncesWithoutEnd(t *testing.T) {
	for every, most := range map[time.Duration]time.Duration{
		time.Millisecond: 100 * time.Millisecond,
		7 * time.Second:  7 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSlippingServer(isHandle, func(n int) string {
				if n == 12 {
					return isDone
				}
				return isWorking
			})
			s.every = every
			_, err := s.follow(t)
			noError(t, err)
			for i := 3; i < len(s.polled); i++ {
				if waited := s.polled[i] - s.polled[i-1]; waited < most || waited > most+most/2 {
					t.Errorf("poll %d after %v, want %v", i+1, waited, most)
				}
			}
		})
	}
}

// A handler sees a question once, whatever the server repeats, unless the question gets a new key.
func TestQuestionsOfTasks(t *testing.T) {
	for name, test := range map[string]struct {
		get             func(s *slippingServer) string
		busy            int // which update is refused as busy
		ok              bool
		asked           int32
		polled, updated int // numbers of polls and updates; 0: any
	}{
		"shown once": {get: func(s *slippingServer) string {
			switch n := len(s.polled); {
			case n == 21:
				return isAsking("who.2")
			case n <= 30: // an answered question's key comes back
				return isAsking("who")
			}
			return isDone
		}, ok: true, asked: 2},
		"answered and repeated": { // the answer is resent now and then
			get:   func(*slippingServer) string { return isAsking("who") },
			asked: 1, polled: 62, updated: 7},
		// The next poll resends the answer, although the server has accepted earlier answers.
		"busy server": {get: func(s *slippingServer) string {
			return []string{isAsking("one"), isAsking("two"), isAsking("two"), isDone}[s.updated]
		}, busy: 2, ok: true, asked: 2, polled: 4, updated: 3},
		"without end": {
			get:   func(s *slippingServer) string { return isAsking(fmt.Sprint("q", len(s.polled))) },
			asked: 1024},
	} {
		inBubble(t, name, func(t *testing.T) {
			var s *slippingServer
			s = newSlippingServer(isHandle, func(int) string { return test.get(s) })
			s.busy = test.busy
			asked, err := s.follow(t)
			if (err == nil) != test.ok || isResponseError(err) == test.ok || asked != test.asked {
				t.Errorf("asked %d times, %v", asked, err)
			}
			if test.polled > 0 && (len(s.polled) != test.polled || s.updated != test.updated) ||
				(s.cancelled == 0) != test.ok {
				t.Errorf("%d polls, %d updates, cancelled %d times", len(s.polled), s.updated,
					s.cancelled)
			}
		})
	}
}

func TestHandlesThatNobodyAskedForAreRefused(t *testing.T) {
	want := func(t *testing.T, s *slippingServer, err error) {
		t.Helper()
		if !isResponseError(err) || len(s.polled) != 0 {
			t.Errorf("error %v after %d polls", err, len(s.polled))
		}
	}
	tasks := &client.Options{Tasks: true}
	for name, call := range map[string]func(s *slippingServer) error{
		"undeclared": func(s *slippingServer) error { _, err := callOnce(t, s, nil); return err },
		"prompt": func(s *slippingServer) error {
			_, err := newClient(t, s, tasks).GetPrompt(t.Context(), "p", nil)
			return err
		},
		"resource": func(s *slippingServer) error {
			_, err := newClient(t, s, tasks).ReadResource(t.Context(), "x:y")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlippingServer(isHandle, nil)
			want(t, s, call(s))
		})
	}
	for name, handle := range map[string]string{
		"no id":     `{"resultType":"task",` + taskTimes + `,"status":"working"}`,
		"empty id":  `{"resultType":"task","taskId":"",` + taskTimes + `,"status":"working"}`,
		"no status": `{"resultType":"task","taskId":"t1",` + taskTimes + `}`,
		"no time":   `{"resultType":"task","taskId":"t1","ttlMs":null,"status":"working"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlippingServer(handle, nil)
			_, err := s.follow(t)
			want(t, s, err)
		})
	}
}

// A given-up call cancels its task, because nobody else has the handle; BeginTask's may be shared.
func TestGivenUpCallCancelsItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlippingServer(isHandle, func(int) string { return isWorking })
		c := newClient(t, s, &client.Options{Tasks: true})
		ctx, cancel := context.WithTimeout(t.Context(), 11*time.Second)
		defer cancel()
		_, err := c.CallTool(ctx, "greet", nil)
		if !errors.Is(err, context.DeadlineExceeded) || s.cancelled != 1 {
			t.Errorf("%v, cancelled %d times", err, s.cancelled)
		}
		_, task, err := c.BeginTask(t.Context(), &protocol.CallToolParams{Name: "greet"})
		noError(t, err)
		ctx, cancel = context.WithTimeout(t.Context(), 11*time.Second)
		defer cancel()
		_, err = c.FollowTask(ctx, task, nil)
		if !errors.Is(err, context.DeadlineExceeded) || s.cancelled != 1 {
			t.Errorf("followed: %v, cancelled %d times", err, s.cancelled)
		}
	})
}
