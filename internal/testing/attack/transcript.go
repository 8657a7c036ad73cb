package attack

import "strings"

// Transcript returns the questions, the answers and the result as text.
func (p *Played) Transcript() string {
	var b strings.Builder
	b.WriteString(p.request.Method + " " + p.request.Target + "\n")
	for _, a := range p.asked {
		b.WriteString(a.formatLine())
	}
	b.WriteString("= " + strings.ReplaceAll(p.out.String(), "\n", "\n  ") + "\n")
	return b.String()
}

func (a askedQuestion) formatLine() string {
	return "? " + a.key + ": " + a.description + "\n! " + string(a.answer.Result) + "\n"
}
