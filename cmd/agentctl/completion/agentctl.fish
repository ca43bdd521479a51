
# Names of contexts, clusters and rules are asked for when they are needed.
function __agentctl_names
    set -l asked (commandline -opc)
    set -l cur (commandline -ct)
    if string match -qr -- '^-.*=' $cur
        set -a asked (string replace -r -- '=.*' '' $cur)
        set cur (string replace -r -- '^[^=]*=' '' $cur)
    end
    AGENTCTL_WORD=$cur command $asked --generate-bash-completion 2>/dev/null
end
complete -c agentctl -x -l context -a '(__agentctl_names)'
complete -c agentctl -x -n '__fish_seen_subcommand_from join doctor explain' -l peer-context -a '(__agentctl_names)'
complete -c agentctl -x -n '__fish_seen_subcommand_from explain' -l from -a '(__agentctl_names)'
complete -c agentctl -n '__fish_seen_subcommand_from remove approve export; or __fish_seen_subcommand_from list explain; and __fish_seen_subcommand_from rules' -a '(__agentctl_names)'
