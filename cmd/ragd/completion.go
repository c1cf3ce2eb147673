package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" help:"bash, zsh or fish." enum:"bash,zsh,fish"`
}

// Help is shown by ragd completion --help.
func (completionCmd) Help() string {
	return `  ragd completion bash > /etc/bash_completion.d/ragd
  ragd completion zsh > "${fpath[1]}/_ragd"
  ragd completion fish > ~/.config/fish/completions/ragd.fish`
}

// Run prints a script that completes commands, flags and their fixed values, and file names elsewhere.
func (k completionCmd) Run(parsed *kong.Context) error {
	write := map[string]func(io.Writer, []completionNode){"bash": completeBash, "zsh": completeZsh, "fish": completeFish}[k.Shell]
	write(os.Stdout, completionNodes(parsed.Model.Node, nil))
	return nil
}

// completionNode is a command with what can follow it.
type completionNode struct {
	path  []string // of commands, below ragd
	words []completionWord
}

type completionWord struct{ word, help string }

// completionNodes lists node and all commands below it.
func completionNodes(node *kong.Node, path []string) []completionNode {
	here := completionNode{path: path}
	var below []completionNode
	for _, child := range node.Children {
		if child.Hidden {
			continue
		}
		here.words = append(here.words, completionWord{child.Name, child.Help})
		below = append(below, completionNodes(child, append(slices.Clone(path), child.Name))...)
	}
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			here.words = append(here.words, completionWord{"--" + flag.Name, flag.Help})
		}
	}
	for _, positional := range node.Positional {
		for value := range strings.SplitSeq(positional.Enum, ",") {
			if value != "" {
				here.words = append(here.words, completionWord{value, positional.Help})
			}
		}
	}
	return append([]completionNode{here}, below...)
}

func (n completionNode) key() string { return strings.Join(n.path, " ") }

// pathScript finds the command that the words so far name; the same in bash and zsh.
const pathScript = `  local route="" word
  for word in "${words[@]:1:$((current - 1))}"; do
    case "$word" in -*) ;; *) case " $known " in *"|${route:+$route }$word|"*) route="${route:+$route }$word" ;; esac ;; esac
  done
`

func knownPaths(nodes []completionNode) string {
	var all strings.Builder
	for _, n := range nodes[1:] {
		all.WriteString("|" + n.key() + "|")
	}
	return all.String()
}

func completeBash(w io.Writer, nodes []completionNode) {
	fmt.Fprintf(w, "# bash completion of ragd\n_ragd() {\n  local words=(\"${COMP_WORDS[@]}\") current=$COMP_CWORD known='%s' choices=\n%s  case \"$route\" in\n", knownPaths(nodes), pathScript)
	for _, n := range nodes {
		var words []string
		for _, word := range n.words {
			words = append(words, word.word)
		}
		fmt.Fprintf(w, "    %q) choices=%q ;;\n", n.key(), strings.Join(words, " "))
	}
	fmt.Fprint(w, "  esac\n  COMPREPLY=($(compgen -W \"$choices\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _ragd ragd\n")
}

func completeZsh(w io.Writer, nodes []completionNode) {
	fmt.Fprintf(w, "#compdef ragd\n_ragd() {\n  local current=$((CURRENT - 1)) known='%s'\n  local -a choices\n%s  case \"$route\" in\n", knownPaths(nodes),
		pathScript)
	for _, n := range nodes {
		fmt.Fprintf(w, "    %q) choices=(", n.key())
		for _, word := range n.words {
			fmt.Fprintf(w, " %s", singleQuoted(word.word+":"+firstSentence(word.help)))
		}
		fmt.Fprint(w, " ) ;;\n")
	}
	fmt.Fprint(w, "  esac\n  _describe ragd choices || _files\n}\ncompdef _ragd ragd\n")
}

func completeFish(w io.Writer, nodes []completionNode) {
	fmt.Fprint(w, "# fish completion of ragd\ncomplete -c ragd -n __fish_use_subcommand -f\n")
	for _, n := range nodes {
		condition := "__fish_use_subcommand"
		if len(n.path) > 0 {
			condition = "__fish_seen_subcommand_from " + n.path[len(n.path)-1]
		}
		for _, word := range n.words {
			if flag, ok := strings.CutPrefix(word.word, "--"); ok {
				fmt.Fprintf(w, "complete -c ragd -n %s -l %s -d %s\n", singleQuoted(condition), flag, singleQuoted(firstSentence(word.help)))
				continue
			}
			fmt.Fprintf(w, "complete -c ragd -n %s -a %s -d %s\n", singleQuoted(condition), word.word, singleQuoted(firstSentence(word.help)))
		}
	}
}

// firstSentence keeps a menu narrow.
func firstSentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(strings.ReplaceAll(first, "\n", " "), ".")
}

// singleQuoted is text as a shell takes it literally.
func singleQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
