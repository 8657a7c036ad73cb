// Package archtest holds the repository's own rules, as tests: which package may import which, that
// everything exported is documented, that no package keeps state of its own, and what lies at the
// top level.
//
// Every exception is listed by name with its reason, and an exception that nothing needs any more
// fails like a broken rule.
package archtest
