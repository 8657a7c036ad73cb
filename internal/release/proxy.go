package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// writeProxy writes the modules into a folder that the go command can use as a module proxy.
func (r *release) writeProxy(dir string) error {
	when, err := execute(r.top, "git", "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, r.version, when)
	for _, folder := range r.folders {
		if err := r.writeModule(dir, folder, info); err != nil {
			return fmt.Errorf("%s: %w", modulePath(folder), err)
		}
	}
	return nil
}

func (r *release) writeModule(dir, folder, info string) error {
	m := module.Version{Path: modulePath(folder), Version: r.version}
	at := filepath.Join(dir, filepath.FromSlash(m.Path), "@v") // no capitals, nothing to escape
	if err := os.MkdirAll(at, 0o777); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(r.top, folder, "go.mod"))
	if err != nil {
		return err
	}
	inside := folder
	if folder == "." {
		inside = "" // as zip calls the root
	}
	var files bytes.Buffer
	if err := zip.CreateFromVCS(&files, m, r.top, "HEAD", inside); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"list": []byte(m.Version + "\n"),
		m.Version + ".info": []byte(info), m.Version + ".mod": mod,
		m.Version + ".zip": files.Bytes()} {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}
