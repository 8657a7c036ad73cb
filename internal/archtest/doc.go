// Package archtest holds the repository's own rules, as tests: which package may import which, what
// each exports, that no package keeps state of its own, that what pages and comments name exists,
// and that what there is grows on purpose.
//
// Every exception is listed by name with its reason, and an exception that nothing needs any more
// fails like a broken rule.
package archtest
