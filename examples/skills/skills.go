package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const (
	manifest = "SKILL.md"
	scheme   = "skill://"
	// maxSkillFiles and maxSkillBytes bound one skill, as the extension advises.
	maxSkillFiles = 512
	maxSkillBytes = 16 << 20
	maxFileBytes  = 2 << 20 // for one file, which travels in one message
	// maxFiles and maxBytes bound all files together, which are in memory.
	maxFiles       = 4096
	maxBytes       = 64 << 20
	maxFrontmatter = 16 << 10 // for one skill; each listing repeats it
)

// A file is a file of a skill, such as the resource skill://acme/refunds/SKILL.md.
type file struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int    `json:"size"`

	name        string // within the file system
	data        []byte
	frontmatter map[string]any // of a manifest only
}

type skill struct {
	URI         string         `json:"uri"`
	Frontmatter map[string]any `json:"frontmatter"`
	Resources   []*file        `json:"resources"`
}

// A catalog has all served files and skills, in the order of URIs.
type catalog struct {
	files  []*file
	skills []*skill
}

// addSkills serves each folder of a file system that has a SKILL.md. It reads all files once, so
// that digests stay valid and no request reaches the disk. It fails if a file cannot be served. It
// skips names that begin with a dot, and files outside of skills.
func addSkills(srv *server.Server, fsys fs.FS) error {
	files, err := readFiles(fsys)
	if err != nil {
		return err
	}
	c := &catalog{}
	if c.skills, err = collectSkills(files); err != nil {
		return err
	}
	for _, f := range files {
		if c.isWithinSkill(f.URI) {
			c.files = append(c.files, f)
			server.AddResource(srv, f.resource(), f.read)
		}
	}
	server.AddExtension(srv, server.Extension{
		Name:     "io.modelcontextprotocol/skills",
		Settings: json.RawMessage(`{"directoryRead":true}`),
		Methods: []server.ExtensionMethod{
			{Method: "skills/list", Undeclared: true, Handle: c.list},
			{Method: "skills/get", Undeclared: true, Handle: c.get},
			{Method: "resources/directory/read", Undeclared: true, Handle: c.readDirectory},
		}})
	return nil
}

func readFiles(fsys fs.FS) (files []*file, err error) {
	total := 0
	err = fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case strings.HasPrefix(entry.Name(), ".") && entry.IsDir():
			return fs.SkipDir
		case strings.HasPrefix(entry.Name(), ".") || entry.IsDir():
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%q is no regular file; links are not followed", name)
		}
		f, err := readFile(fsys, name)
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		files = append(files, f)
		if total += f.Size; total > maxBytes || len(files) > maxFiles {
			return fmt.Errorf("more than %d bytes or %d files; serve fewer skills", maxBytes,
				maxFiles)
		}
		return nil
	})
	slices.SortFunc(files, func(a, b *file) int { return strings.Compare(a.URI, b.URI) })
	return files, err
}

func readFile(fsys fs.FS, name string) (*file, error) {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool {
		return r == '\\' || unicode.IsControl(r)
	}) {
		return nil, errors.New("the name has characters that names in URIs should not have")
	}
	opened, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	data, err := io.ReadAll(io.LimitReader(opened, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("is longer than %d bytes", maxFileBytes)
	}
	segments := strings.Split(name, "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	f := &file{URI: scheme + strings.Join(segments, "/"), Size: len(data), name: name, data: data,
		Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(data))}
	if path.Base(name) == manifest {
		f.frontmatter, err = readManifest(path.Dir(name), data)
	}
	return f, err
}

var (
	skillName   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	skillFolder = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$`)
)

// readManifest returns a manifest's frontmatter, and checks it against its folder.
func readManifest(folder string, data []byte) (map[string]any, error) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	text, begins := strings.CutPrefix(text, "---\n")
	text, _, ends := strings.Cut("\n"+text+"\n", "\n---\n")
	if !begins || !ends || len(text) > maxFrontmatter || !utf8.ValidString(text) {
		return nil, fmt.Errorf("must begin with frontmatter between two lines ---, of at most %d "+
			"bytes of UTF-8", maxFrontmatter)
	}
	var document yaml.Node
	var members map[string]any
	err := yaml.Unmarshal([]byte(text), &document)
	if err == nil {
		keepDatesAsText(&document)
		err = document.Decode(&members)
	}
	if err == nil {
		_, err = json.Marshal(members) // this fails for values that JSON lacks
	}
	if err != nil {
		return nil, fmt.Errorf("frontmatter: %w", err)
	}
	name, _ := members["name"].(string)
	about, _ := members["description"].(string)
	switch {
	case about == "":
		return nil, errors.New("frontmatter: description: is missing, or no text")
	case len(name) > 64 || !skillName.MatchString(name):
		return nil, errors.New("frontmatter: name: must be lower case letters, digits and single " +
			"hyphens, at most 64")
	case name != path.Base(folder):
		return nil, fmt.Errorf("frontmatter: name: %q is not that of the folder", name)
	case !skillFolder.MatchString(folder):
		return nil, errors.New("folders must be named in letters, digits, '.', '_' and '-'")
	}
	return members, nil
}

// keepDatesAsText turns dates, which JSON lacks, into text.
func keepDatesAsText(node *yaml.Node) {
	if node.ShortTag() == "!!timestamp" {
		node.Tag = "!!str"
	}
	for _, child := range node.Content {
		keepDatesAsText(child)
	}
}

// collectSkills adds each file to all skills around it, because skills may be nested.
func collectSkills(files []*file) (skills []*skill, err error) {
	for _, m := range files {
		if m.frontmatter == nil {
			continue
		}
		s, size := &skill{URI: m.URI, Frontmatter: m.frontmatter}, 0
		for _, f := range files {
			if strings.HasPrefix(f.URI, s.folder()+"/") {
				s.Resources = append(s.Resources, f)
				size += f.Size
			}
		}
		if len(s.Resources) > maxSkillFiles || size > maxSkillBytes {
			return nil, fmt.Errorf("%s: has more than %d files or %d bytes", s.URI,
				maxSkillFiles, maxSkillBytes)
		}
		skills = append(skills, s)
	}
	return skills, nil
}

func (s *skill) folder() string { return strings.TrimSuffix(s.URI, "/"+manifest) }

func (c *catalog) isWithinSkill(uri string) bool {
	return slices.ContainsFunc(c.skills, func(s *skill) bool {
		return strings.HasPrefix(uri+"/", s.folder()+"/")
	})
}

func (f *file) resource() server.Resource {
	size := int64(f.Size)
	r := server.Resource{URI: f.URI, Name: path.Base(f.name), MIMEType: f.mimeType(), Size: &size}
	if f.frontmatter != nil {
		r.Name = f.frontmatter["name"].(string) // readManifest has checked both members
		r.Description = f.frontmatter["description"].(string)
	}
	return r
}

func (f *file) isText() bool { return utf8.Valid(f.data) && !slices.Contains(f.data, 0) }

// mimeType returns the file's type, which is the same on every machine.
func (f *file) mimeType() string {
	if f.isText() && strings.EqualFold(path.Ext(f.name), ".md") {
		return "text/markdown"
	}
	return http.DetectContentType(f.data)
}

func (f *file) read(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	contents := protocol.ResourceContents{URI: f.URI, MIMEType: f.mimeType(), Blob: f.data}
	if f.isText() {
		contents.Text, contents.Blob = string(f.data), nil
	}
	return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{contents}}, nil
}
