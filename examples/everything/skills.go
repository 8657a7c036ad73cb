package main

import (
	"embed"
	"io/fs"

	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/skills"
)

//go:embed skills
var skillFiles embed.FS

// addSkills serves the skills in the folder beside this file.
func addSkills(srv *server.Server) error {
	folder, err := fs.Sub(skillFiles, "skills")
	if err != nil {
		return err
	}
	return skills.Add(srv, folder)
}
