package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const diffTool = "golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4"

// compareAPI prints how the API of each released module changed since a tag or commit. It compares
// the release's clone with another one, which it makes in dir.
func (r *release) compareAPI(dir, ref string) error {
	before := filepath.Join(dir, "before")
	if _, err := execute(dir, "git", "clone", "-q", r.top, before); err != nil {
		return err
	}
	if _, err := execute(before, "git", "checkout", "-q", ref); err != nil {
		return err
	}
	for _, folder := range r.folders {
		path, old := modulePath(folder), filepath.Join(dir, "old")
		fmt.Printf("%s since %s:\n", path, ref)
		was, is := filepath.Join(before, folder), filepath.Join(r.top, folder)
		if _, err := os.Stat(filepath.Join(was, "go.mod")); err != nil {
			fmt.Println("- a new module")
			continue
		}
		_, err := execute(was, "go", "run", diffTool, "-m", "-w", old, path)
		if err != nil {
			return err
		}
		changes, err := execute(is, "go", "run", diffTool, "-m", old, path)
		if err != nil {
			return err
		}
		fmt.Println(changes)
	}
	return nil
}
