package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

const list = `# what must pass
exclude tasks-* an extension

tools-call call ToolCall
tools-call wire Wire
tools-call wire Wire
headers sent Initialize SKIPPED
`

// file returns a checks.json with a check for each of the given "id name STATUS".
func file(checks ...string) *fstest.MapFile {
	var all []string
	for _, c := range checks {
		f := strings.Fields(c)
		all = append(all, `{"id":"`+f[0]+`","name":"`+f[1]+`","status":"`+f[2]+`","description":"what it is","details":{"any":1}}`)
	}
	return &fstest.MapFile{Data: []byte("[" + strings.Join(all, ",") + "]")}
}

const (
	tools    = "tools-call-2026-11-21T03-51-43-199Z/checks.json"
	headers  = "headers-2026-11-21T03-51-43-200Z/checks.json"
	tasks    = "tasks-get-2026-11-21T03-51-43-201Z/checks.json"
	stranger = "auth/new-2026-11-21T03-51-43-202Z/checks.json"
)

func good() fstest.MapFS {
	return fstest.MapFS{
		tools:   file("call ToolCall SUCCESS", "wire Wire SUCCESS", "wire Wire SUCCESS"),
		headers: file("sent Initialize SKIPPED"),
		tasks:   file("get TasksGet FAILURE"),
	}
}

func parse(t *testing.T, text string) *List {
	t.Helper()
	l, err := ParseList(text)
	testkit.NoError(t, err)
	return l
}

func results(t *testing.T, dir fstest.MapFS) Results {
	t.Helper()
	r, err := ReadResults(dir, false)
	testkit.NoError(t, err)
	return r
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(fstest.MapFS)
		passed int
		failed []string
	}{
		{"all in order", func(fstest.MapFS) {}, 4, nil},
		{"better than expected",
			func(fs fstest.MapFS) { fs[headers] = file("sent Initialize SUCCESS") }, 4, nil},
		{"more than expected", func(fs fstest.MapFS) {
			fs[headers] = file("sent Initialize SKIPPED", "sent List SUCCESS")
		}, 4, nil},
		{"a failure", func(fs fstest.MapFS) {
			fs[tools] = file("call ToolCall FAILURE", "wire Wire SUCCESS", "wire Wire SUCCESS")
		}, 3, []string{"tools-call: call ToolCall: FAILURE: what it is"}},
		{"a warning", func(fs fstest.MapFS) {
			fs[tools] = file("call ToolCall WARNING", "wire Wire SUCCESS", "wire Wire SUCCESS")
		}, 3, []string{"tools-call: call ToolCall: WARNING: what it is"}},
		{"skipped", func(fs fstest.MapFS) {
			fs[tools] = file("call ToolCall SKIPPED", "wire Wire SUCCESS", "wire Wire SUCCESS")
		}, 3, []string{"tools-call: call ToolCall: SKIPPED: what it is"}},
		{"a failure not on the list", func(fs fstest.MapFS) {
			fs[headers] = file("sent Initialize SKIPPED", "sent List FAILURE")
		}, 4, []string{"headers: sent List: FAILURE: what it is"}},
		{"expected to be skipped, failed", func(fs fstest.MapFS) {
			fs[headers] = file("sent Initialize FAILURE")
		}, 3, []string{"headers: sent Initialize: FAILURE: what it is"}},
		{"missing", func(fs fstest.MapFS) {
			fs[tools] = file("wire Wire SUCCESS", "wire Wire SUCCESS")
		}, 3, []string{"tools-call: call ToolCall: is missing, want SUCCESS"}},
		{"one of two missing", func(fs fstest.MapFS) {
			fs[tools] = file("call ToolCall SUCCESS", "wire Wire SUCCESS")
		}, 3, []string{"tools-call: wire Wire: is missing, want SUCCESS"}},
		{"one of two failed", func(fs fstest.MapFS) {
			fs[tools] = file("call ToolCall SUCCESS", "wire Wire FAILURE", "wire Wire SUCCESS")
		}, 3, []string{"tools-call: wire Wire: FAILURE: what it is"}},
		{"no scenario", func(fs fstest.MapFS) { delete(fs, headers) },
			3, []string{"headers: sent Initialize: is missing, want SKIPPED"}},
		{"no checks", func(fs fstest.MapFS) { fs[headers] = file() },
			3, []string{"headers: sent Initialize: is missing, want SKIPPED"}},
		{"unknown scenario", func(fs fstest.MapFS) { fs[stranger] = file("x X SUCCESS") },
			4, []string{"auth/new: is neither on the list nor excluded"}},
		{"unknown scenario without checks", func(fs fstest.MapFS) { fs[stranger] = file() },
			4, []string{"auth/new: is neither on the list nor excluded"}},
		{"idle exclusion", func(fs fstest.MapFS) { delete(fs, tasks) },
			4, []string{"tasks-*: is excluded, but there is no such scenario"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := good()
			test.change(dir)
			got := parse(t, list).Judge(results(t, dir))
			if got.Passed != test.passed || !slices.Equal(got.Failed, test.failed) {
				t.Errorf("got %d passed, failed %q, want %d, %q", got.Passed, got.Failed,
					test.passed, test.failed)
			}
		})
	}
}

func TestNothingAtAllFails(t *testing.T) {
	got := parse(t, list).Judge(results(t, fstest.MapFS{}))
	if got.Passed != 0 || len(got.Failed) != 5 {
		t.Errorf("got %d passed, failed %q, want four checks and an exclusion to fail", got.Passed,
			got.Failed)
	}
}

func TestJudgeControl(t *testing.T) {
	dead := fstest.MapFS{
		tools:   file("call ToolCall FAILURE", "wire Wire SUCCESS", "wire Wire SUCCESS"),
		headers: file(),
		tasks:   file("get TasksGet FAILURE"),
	}
	if got := parse(t, list).JudgeControl(results(t, dead)); got.Passed != 2 ||
		len(got.Failed) != 0 {
		t.Errorf("got %d passed, failed %q, want both scenarios to notice", got.Passed, got.Failed)
	}
	dead[headers] = file("sent Initialize SKIPPED")
	want := []string{"headers: passes without a subject"}
	if got := parse(t, list).JudgeControl(results(t, dead)); got.Passed != 1 ||
		!slices.Equal(got.Failed, want) {
		t.Errorf("got %d passed, failed %q, want %q", got.Passed, got.Failed, want)
	}
	if got := parse(t, list).JudgeControl(results(t, fstest.MapFS{})); len(got.Failed) != 1 {
		t.Errorf("failed %q, want a control without results to fail", got.Failed)
	}
}

func TestUpdateHidesNoFailure(t *testing.T) {
	dir := good()
	dir[tools] = file("call ToolCall FAILURE", "wire Wire WARNING", "new New SUCCESS")
	l := parse(t, list)
	l.Update(results(t, dir))
	want := `# what must pass
exclude tasks-* an extension

headers sent Initialize SKIPPED
tools-call call ToolCall
tools-call new New
tools-call wire Wire
`
	if got := string(l.Text()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := parse(t, want).Judge(results(t, dir)); len(got.Failed) != 2 {
		t.Errorf("failed %q, want what failed before to fail still", got.Failed)
	}
}

func TestParseListErrors(t *testing.T) {
	for name, text := range map[string]string{
		"exclusion without a reason": "exclude tasks-*",
		"exclusion that is none":     "exclude [ broken",
		"too few fields":             "tools-call call",
		"too many fields":            "tools-call call ToolCall SKIPPED today",
		"failure expected":           "tools-call call ToolCall FAILURE",
		"status of no meaning":       "tools-call call ToolCall FINE",
	} {
		if _, err := ParseList("# first\n" + text); err == nil ||
			!strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: error %v, want one that names line 2", name, err)
		}
	}
}

func TestReadResults(t *testing.T) {
	dir := fstest.MapFS{
		"server-server-stateless-2026-11-21T03-51-43-199Z/checks.json": file("a A SUCCESS"),
		"server-server-stateless-2026-11-21T03-51-43-199Z/stdout.txt":  {Data: []byte("not read")},
	}
	r, err := ReadResults(dir, true)
	if err != nil || len(r["server-stateless"]) != 1 || len(r) != 1 {
		t.Errorf("got %v, %v, want one check of server-stateless", r, err)
	}
	dir["server-x-2026-11-21T03-51-43-199Z/checks.json"] = &fstest.MapFile{Data: []byte(`{"cut off`)}
	if _, err := ReadResults(dir, true); err == nil ||
		!strings.Contains(err.Error(), "server-x") {
		t.Errorf("error %v, want one that names the file", err)
	}
}
