package skills

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// Extension is the name under which clients and servers declare skills.
const Extension = "io.modelcontextprotocol/skills"

const (
	manifest = "SKILL.md"
	scheme   = "skill://"
	// maxSkillFiles and maxSkillBytes bound one skill, as the extension advises.
	maxSkillFiles = 512
	maxSkillBytes = 16 << 20
	// maxFileBytes bounds one file, which travels in one message.
	maxFileBytes = 2 << 20
	// maxBytes bounds all files, which are in memory; maxFiles is how many there may be.
	maxBytes = 64 << 20
	maxFiles = 16 << 10
)

// A file is one file of a skill.
type file struct {
	name   string // within the file system
	entry  fileEntry
	text   string // or
	blob   []byte
	mime   string
	parsed *frontmatter // of a manifest
}

type fileEntry struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int    `json:"size"`
}

// A skill is one entry of skills/list.
type skill struct {
	uri   string
	files []fileEntry
	entry json.RawMessage
}

// catalog is what a server serves, each list in the order of URIs.
type catalog struct {
	files  []*file
	skills []*skill
}

// Add serves the skills of a file system. It reads all files, and fails where one cannot be served:
// a manifest whose frontmatter is not as [Agent Skills] want it, or written in YAML that parsers
// read in different ways; a folder that is not named as its skill; anything that is neither file
// nor folder, such as a symbolic link; more than 512 files or 16 MiB in a skill, 2 MiB in a file,
// or 64 MiB in all. Files and folders whose name begins with a dot are passed over, and so are
// files outside of skills. It panics when srv has the extension already, or a resource of the same
// URI.
//
// [Agent Skills]: https://agentskills.io/specification
func Add(srv *server.Server, fsys fs.FS) error {
	c, err := read(fsys)
	if err != nil {
		return fmt.Errorf("skills: %w", err)
	}
	for _, f := range c.files {
		server.AddResource(srv, f.resource(), f.read)
	}
	server.AddExtension(srv, server.Extension{
		Name:     Extension,
		Settings: json.RawMessage(`{"directoryRead":true}`),
		Methods: []server.ExtensionMethod{
			{Method: "skills/list", Undeclared: true, Handle: c.list},
			{Method: "skills/get", Undeclared: true, Handle: c.get},
			{Method: "resources/directory/read", Undeclared: true, Handle: c.readDirectory},
		}})
	return nil
}

// read reads what is to be served.
func read(fsys fs.FS) (*catalog, error) {
	folders := map[string]*skill{} // by their names in fsys
	var files []*file
	total := 0
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return noteFolder(fsys, name, folders)
		case enclosing(folders, name) == "":
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%q is no regular file; links are not followed", name)
		}
		f, err := readFile(fsys, name)
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		files = append(files, f)
		if total += f.entry.Size; total > maxBytes || len(files) > maxFiles {
			return fmt.Errorf("more than %d bytes or %d files; serve fewer skills", maxBytes,
				maxFiles)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return assemble(folders, files)
}

// noteFolder adds a folder where it is that of a skill.
func noteFolder(fsys fs.FS, name string, folders map[string]*skill) error {
	_, err := fs.Stat(fsys, path.Join(name, manifest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && name == "." {
		err = errors.New("must be in a folder that is named as the skill")
	}
	if err == nil && !isSkillPath(name) {
		err = errors.New("folders must be named in letters, digits, '.', '_' and '-', " +
			"and that of a skill as the skill")
	}
	if err != nil {
		return fmt.Errorf("%q: %w", path.Join(name, manifest), err)
	}
	folders[name] = &skill{uri: scheme + name + "/" + manifest}
	return nil
}

// enclosing returns the innermost skill that a file is in, "" for none.
func enclosing(folders map[string]*skill, name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if folders[dir] != nil {
			return dir
		}
	}
	return ""
}

var (
	skillName   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	pathSegment = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

func isSkillPath(name string) bool {
	last := path.Base(name)
	if len(last) > 64 || !skillName.MatchString(last) {
		return false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if !pathSegment.MatchString(segment) {
			return false
		}
	}
	return true
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
	digest := sha256.Sum256(data)
	segments := strings.Split(name, "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	f := &file{name: name, entry: fileEntry{scheme + strings.Join(segments, "/"),
		"sha256:" + hex.EncodeToString(digest[:]), len(data)}}
	isText := utf8.Valid(data) && !slices.Contains(data, 0)
	if isText {
		f.text = string(data)
	} else {
		f.blob = data
	}
	f.mime = mimeOf(name, isText)
	if path.Base(name) == manifest {
		f.parsed, err = readFrontmatter(f.text)
		if err == nil && f.parsed.name != path.Base(path.Dir(name)) {
			err = fmt.Errorf("name %q is not that of the folder", f.parsed.name)
		}
	}
	return f, err
}

// assemble puts each file into the skills around it.
func assemble(folders map[string]*skill, files []*file) (*catalog, error) {
	c := &catalog{files: files}
	heads := map[*skill]json.RawMessage{}
	slices.SortFunc(c.files, func(a, b *file) int {
		return strings.Compare(a.entry.URI, b.entry.URI)
	})
	for _, f := range c.files {
		for dir := path.Dir(f.name); dir != "."; dir = path.Dir(dir) {
			s := folders[dir]
			if s == nil {
				continue
			}
			s.files = append(s.files, f.entry)
			if s.uri == f.entry.URI {
				heads[s] = f.parsed.object
			}
		}
	}
	for _, s := range folders {
		size := 0
		for _, f := range s.files {
			size += f.Size
		}
		if len(s.files) > maxSkillFiles || size > maxSkillBytes {
			return nil, fmt.Errorf("%s: has more than %d files or %d bytes", s.uri,
				maxSkillFiles, maxSkillBytes)
		}
		if heads[s] == nil {
			return nil, fmt.Errorf("%s: is no file that can be read", s.uri)
		}
		var err error
		if s.entry, err = json.Marshal(map[string]any{"uri": s.uri, "frontmatter": heads[s],
			"resources": s.files}); err != nil {
			return nil, err
		}
		c.skills = append(c.skills, s)
	}
	slices.SortFunc(c.skills, func(a, b *skill) int { return strings.Compare(a.uri, b.uri) })
	return c, nil
}

// resource is how resources/list names the file.
func (f *file) resource() server.Resource {
	size := int64(f.entry.Size)
	r := server.Resource{URI: f.entry.URI, Name: path.Base(f.name), MIMEType: f.mime, Size: &size}
	if f.parsed != nil {
		r.Name, r.Description = f.parsed.name, f.parsed.description
	}
	return r
}

func (f *file) read(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{
		{URI: f.entry.URI, MIMEType: f.mime, Text: f.text, Blob: f.blob}}}, nil
}

// mimeOf returns the type of a file. It is the same on every machine.
func mimeOf(name string, isText bool) string {
	switch ext := strings.ToLower(path.Ext(name)); {
	case isText && (ext == ".md" || ext == ".markdown"):
		return "text/markdown"
	case isText && ext == ".json":
		return "application/json"
	case isText && (ext == ".html" || ext == ".css" || ext == ".csv"):
		return "text/" + ext[1:]
	case isText && ext == ".svg":
		return "image/svg+xml"
	case isText:
		return "text/plain"
	case ext == ".png" || ext == ".gif" || ext == ".jpeg" || ext == ".webp":
		return "image/" + ext[1:]
	case ext == ".jpg":
		return "image/jpeg"
	case ext == ".pdf":
		return "application/pdf"
	}
	return "application/octet-stream"
}
