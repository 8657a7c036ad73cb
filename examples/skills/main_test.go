package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const refunds = "---\nname: refunds\ndescription: Pays back\n---\nText.\n"

func folder(files ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		m[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return m
}

func serve(t *testing.T, files fs.FS, opts *server.Options) *server.Server {
	t.Helper()
	opts.Info = servertest.Info()
	srv, err := server.New(opts)
	testkit.NoError(t, err)
	t.Cleanup(func() { srv.Close() })
	testkit.NoError(t, addSkills(srv, files))
	return srv
}

func overHTTP(t *testing.T, srv *server.Server) protocol.Peer {
	t.Helper()
	s := httptest.NewServer(servertest.NewHandler(t, srv, nil))
	t.Cleanup(s.Close)
	peer, err := clienthttp.New(s.URL, nil)
	testkit.NoError(t, err)
	return peer
}

func connect(t *testing.T, peer protocol.Peer, era protocol.Era) *client.Client {
	t.Helper()
	c, err := client.New(peer, &client.Options{Era: era})
	testkit.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func ask(t *testing.T, c *client.Client, method string, params map[string]any) (
	map[string]any, error) {
	t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	raw, err := json.Marshal(params)
	testkit.NoError(t, err)
	result, err := c.CallExtension(t.Context(), method, "", &protocol.ExtensionParams{Members: raw})
	if err != nil {
		return nil, err
	}
	var members map[string]any
	testkit.NoError(t, json.Unmarshal(result.Members, &members))
	return members, nil
}

// The function all follows a list's cursors, and returns the entries' URIs and the number of pages.
func all(t *testing.T, c *client.Client, method, member, uri string) (uris []string, pages int) {
	t.Helper()
	params := map[string]any{}
	if uri != "" {
		params["uri"] = uri
	}
	for {
		result, err := ask(t, c, method, params)
		testkit.NoError(t, err)
		for _, entry := range result[member].([]any) {
			uris = append(uris, entry.(map[string]any)["uri"].(string))
		}
		pages++
		if params["cursor"] = result["nextCursor"]; params["cursor"] == nil {
			return uris, pages
		}
	}
}

func wantInvalid(t *testing.T, what string, err error) {
	t.Helper()
	if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInvalidParams {
		t.Errorf("%s: %v, want invalid params", what, err)
	}
}

func TestSkillsAreListedAndRead(t *testing.T) {
	files := folder("README.md", "no skill", "acme/refunds/SKILL.md", refunds,
		"acme/refunds/mails/eu/one letter.md", "Dear", "acme/refunds/mails/x.bin", "\x00\xff",
		"acme/refunds/.env", "SECRET=1", "acme/refunds/.git/config", "x",
		"acme/refunds/parts/ask-why/SKILL.md",
		"---\nname: ask-why\ndescription: 'Asks: why'\n---\n")
	srv := serve(t, files, &server.Options{})
	const root = "skill://acme/refunds"
	c := connect(t, overHTTP(t, srv), protocol.Modern)
	list, err := ask(t, c, "skills/list", nil)
	if err != nil || list["cacheScope"] != "public" || list["ttlMs"].(float64) <= 0 {
		t.Fatal(list, err)
	}
	uris, _ := all(t, c, "skills/list", "skills", "")
	want := []string{root + "/SKILL.md", root + "/parts/ask-why/SKILL.md"}
	if !slices.Equal(uris, want) {
		t.Errorf("listed %q", uris)
	}
	got, err := ask(t, c, "skills/get", map[string]any{"uri": want[0]})
	if err != nil || fmt.Sprint(got["skill"]) != fmt.Sprint(list["skills"].([]any)[0]) {
		t.Errorf("got %v, %v", got, err)
	}
	within := fmt.Sprint(got["skill"].(map[string]any)["resources"])
	if strings.Count(within, "skill://") != 4 || strings.Contains(within, ".env") {
		t.Errorf("resources: %v", within)
	}
	for dir, want := range map[string][]string{
		"":       {"/SKILL.md", "/mails", "/parts"},
		"/mails": {"/mails/eu", "/mails/x.bin"},
		// To the skill around it, a nested skill is ordinary content.
		"/parts":    {"/parts/ask-why"},
		"/mails/eu": {"/mails/eu/one%20letter.md"},
	} {
		for i := range want {
			want[i] = root + want[i]
		}
		uris, _ := all(t, c, "resources/directory/read", "resources", root+dir)
		if !slices.Equal(uris, want) {
			t.Errorf("%q: %q", dir, uris)
		}
	}
	read, err := c.ReadResource(t.Context(), root+"/mails/x.bin")
	if err != nil || string(read.Contents[0].Blob) != "\x00\xff" {
		t.Errorf("%v, %v", read, err)
	}
	for _, uri := range []string{"", root, "skill://acme", "skill://none/SKILL.md", root + "/.env",
		root + "/../../README.md", root + "/mails/eu", "SKILL.md", "skill://"} {
		_, err := ask(t, c, "skills/get", map[string]any{"uri": uri})
		wantInvalid(t, "get "+uri, err)
		_, err = c.ReadResource(t.Context(), uri)
		wantInvalid(t, "read "+uri, err)
	}
	for _, uri := range []string{"", "skill://", "skill://acme", root + "/", root + "/SKILL.md",
		root + "/.git", root + "/mails/..", root + "//", root + "/mail"} {
		_, err := ask(t, c, "resources/directory/read", map[string]any{"uri": uri})
		wantInvalid(t, "folder "+uri, err)
	}
	for _, params := range []map[string]any{{}, {"uri": 1}, {"uri": want[0], "cursor": 7}} {
		if _, err := ask(t, c, "skills/get", params); params["cursor"] == nil {
			wantInvalid(t, fmt.Sprint(params), err)
		}
	}
	for _, cursor := range []any{"", "x", "!", 1} {
		_, err := ask(t, c, "skills/list", map[string]any{"cursor": cursor})
		wantInvalid(t, fmt.Sprint("cursor ", cursor), err)
	}
}

func TestSessionsReadFilesWithoutTheMethods(t *testing.T) {
	srv := serve(t, folder("refunds/SKILL.md", refunds), &server.Options{})
	c := connect(t, overHTTP(t, srv), protocol.Legacy)
	read, err := c.ReadResource(t.Context(), "skill://refunds/SKILL.md")
	if err != nil || read.Contents[0].Text != refunds {
		t.Errorf("%v, %v", read, err)
	}
	if _, err := c.CallExtension(t.Context(), "skills/list", "", nil); err == nil {
		t.Error("a session has skills/list")
	}
}

func TestPagesNeitherRepeatNorDivide(t *testing.T) {
	files := fstest.MapFS{}
	for i := range 250 {
		name := fmt.Sprintf("s%d", i)
		files[name+"/SKILL.md"] = &fstest.MapFile{
			Data: []byte("---\nname: " + name + "\ndescription: x\n---\n")}
		files[fmt.Sprintf("s0/f/%d.md", i)] = &fstest.MapFile{}
	}
	c := connect(t, serve(t, files, &server.Options{}), protocol.Modern)
	for method, uri := range map[string]string{"skills/list": "",
		"resources/directory/read": "skill://s0/f"} {
		uris, pages := all(t, c, method,
			map[bool]string{true: "skills", false: "resources"}[uri == ""], uri)
		slices.Sort(uris)
		if pages != 5 || len(slices.Compact(uris)) != 250 {
			t.Errorf("%s: %d in %d pages", method, len(uris), pages)
		}
	}
}

// The extension must not reveal resources that the host hides.
func TestHiddenFilesHideTheirSkill(t *testing.T) {
	files := folder("refunds/SKILL.md", refunds, "refunds/a/secret.md", "x", "refunds/b.md", "x",
		"open/SKILL.md", "---\nname: open\ndescription: x\n---\n")
	srv := serve(t, files, &server.Options{
		Visible: func(_ protocol.Principal, _ server.Kind, name string) bool {
			return !strings.Contains(name, "secret")
		}})
	c := connect(t, srv, protocol.Modern)
	if uris, _ := all(t, c, "skills/list", "skills", ""); len(uris) != 1 {
		t.Errorf("listed %q", uris)
	}
	_, err := ask(t, c, "skills/get", map[string]any{"uri": "skill://refunds/SKILL.md"})
	wantInvalid(t, "hidden", err)
	_, err = ask(t, c, "resources/directory/read", map[string]any{"uri": "skill://refunds/a"})
	wantInvalid(t, "hidden folder", err)
	uris, _ := all(t, c, "resources/directory/read", "resources", "skill://refunds")
	if len(uris) != 2 {
		t.Errorf("shown %q", uris)
	}
	if list, err := ask(t, c, "skills/list", nil); err != nil || list["cacheScope"] != "private" {
		t.Error(list, err)
	}
}

func TestFoldersThatCannotBeServed(t *testing.T) {
	many := folder("refunds/SKILL.md", refunds)
	for i := range 512 {
		many[fmt.Sprintf("refunds/%d", i)] = &fstest.MapFile{}
	}
	large := folder("refunds/SKILL.md", refunds)
	for i := range 9 {
		large[fmt.Sprint("refunds/", i)] = &fstest.MapFile{Data: make([]byte, 2<<20)}
	}
	link := folder("refunds/SKILL.md", refunds)
	link["refunds/passwd"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("/etc/passwd")}
	head := func(name string) string { return "---\nname: " + name + "\ndescription: x\n---\n" }
	for want, files := range map[string]fs.FS{
		"more than 512 files": many,
		"or 16777216 bytes":   large,
		"longer than": folder("refunds/SKILL.md", refunds, "refunds/x",
			strings.Repeat("x", 2<<20+1)),
		"links are not":         link,
		"of the folder":         folder("SKILL.md", refunds),
		"not that of the":       folder("repay/SKILL.md", refunds),
		"folders must be named": folder("Re funds/refunds/SKILL.md", refunds),
		"name: must be":         folder("a--b/SKILL.md", head("a--b")),
		"must begin with":       folder("refunds/SKILL.md", "name: refunds"),
		"description: is":       folder("refunds/SKILL.md", "---\nname: refunds\n---\n"),
		"the name has":          folder("refunds/SKILL.md", refunds, "refunds/a\\b", ""),
		"at most 16384 bytes": folder("refunds/SKILL.md",
			"---\nname: refunds\ndescription: "+strings.Repeat("x", 64<<10)+"\n---\n"),
	} {
		srv, err := server.New(&server.Options{Info: servertest.Info()})
		testkit.NoError(t, err)
		if err := addSkills(srv, files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		srv.Close()
	}
}

// Frontmatter is listed as it was read: the YAML becomes JSON.
func TestFrontmatterIsListedAsItWasRead(t *testing.T) {
	for yaml, want := range map[string]string{
		"v: plain words, it's":                 `"plain words, it's"`,
		"v: 2024-01-02 # as it is written":     `"2024-01-02"`,
		"v: [a, 1, -1.5, true]":                `["a",1,-1.5,true]`,
		"v:\n  a: 'it''s'\n  b:\n    c: \"d\"": `{"a":"it's","b":{"c":"d"}}`,
		"v: >-\n  one\n  two\nw: x":            `"one two"`,
		"v: a\nv: b":                           "",
		"v: .inf":                              "",
		"v: *nothing":                          "",
		"name: y":                              "",
	} {
		for _, newline := range []string{"\n", "\r\n"} {
			text := strings.ReplaceAll("---\nname: x\ndescription: d\n"+yaml+
				"\n---\nBody\n---\n", "\n", newline)
			members, err := readManifest("x", []byte(text))
			got, _ := json.Marshal(members["v"])
			if (err == nil) != (want != "") || err == nil && string(got) != want {
				t.Errorf("%q: %s, %v", yaml, got, err)
			}
		}
	}
}

// A link out of the folder is an error: it is neither followed nor skipped.
func TestLinksOutOfTheFolder(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	skill := filepath.Join(dir, "skills", "refunds")
	for _, d := range []string{outside, skill} {
		testkit.NoError(t, os.MkdirAll(d, 0o700))
	}
	testkit.NoError(t, os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte(refunds), 0o600))
	if err := os.Symlink(outside, filepath.Join(skill, "more")); err != nil {
		t.Skip(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "skills"))
	testkit.NoError(t, err)
	defer root.Close()
	srv, err := server.New(&server.Options{Info: servertest.Info()})
	testkit.NoError(t, err)
	defer srv.Close()
	if err := addSkills(srv, root.FS()); err == nil || !strings.Contains(err.Error(), "links") {
		t.Error(err)
	}
}
