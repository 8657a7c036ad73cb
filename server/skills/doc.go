// Package skills serves Agent Skills, folders of instructions for models with a file SKILL.md
// (SEP-2640, the skills extension, io.modelcontextprotocol/skills).
//
//	root, err := os.OpenRoot("skills")
//	…
//	err = skills.Add(srv, root.FS())
//
// Each folder with a SKILL.md is a skill: the file acme/refunds/SKILL.md is the resource
// skill://acme/refunds/SKILL.md, and the other files of the folder are resources beside it. Clients
// of revision 2026-07-28 list skills, get one by its URI, with the digest of each file, and list
// folders; in sessions the files are resources like others.
//
// All files are read once, by [Add], and kept in memory, so that the digests hold and nothing else
// on the disk can be reached by a request. What changes in the folder counts after a restart.
package skills
