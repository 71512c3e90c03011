-- Dissectors for the formats that Wireshark does not know: the Cambridge Backbone (CBN, MSDL,
-- MSNL), Jetstream, ATM cells with their HEC, AAL3/4, and the messages of the live network.
--
-- Packets come with link type WIRESHARK_UPPER_PDU (252), whose tag 12 names the dissector:
-- barewire.cbn, barewire.msdl, barewire.msnl, barewire.jetstream, barewire.cell,
-- barewire.aal34, barewire.aal5. How to use this file, and its fields: README.md beside it.
-- The layouts are those of the modules of lab/formats with the same names, and are written
-- down there.
--
-- Lua 5.1 to 5.4 share no way to work on bits; this file is for all of them.

---------------------------------------------------------------------------------- tools

local xor
if bit32 then
    xor = bit32.bxor
elseif bit then
    xor = function(a, b) return bit.bxor(a, b) % 0x100000000 end
else
    xor = load("return function(a, b) return a ~ b end")()
end

-- A check code of `width` bits (8 or more), most significant bit first, in a register that
-- begins with `first`: a function from a string to a number.
local function checker(width, polynomial, first)
    local size, rest = 2 ^ width, 2 ^ (width - 8)
    local steps = {}
    for byte = 0, 255 do
        local register = byte * rest
        for _ = 1, 8 do
            local carry = register >= size / 2
            register = register * 2 % size
            if carry then register = xor(register, polynomial) end
        end
        steps[byte] = register
    end
    return function(bytes)
        local register = first
        for i = 1, #bytes do
            local top = math.floor(register / rest)
            register = xor(register % rest * 256, steps[xor(top, bytes:byte(i))])
        end
        return register
    end
end

local crc8 = checker(8, 0x07, 0)
local crc10 = checker(10, 0x233, 0)
local crc12 = checker(12, 0x80f, 0)
local crc32 = checker(32, 0x04c11db7, 0xffffffff)

local HEC_COSET = 0x55
-- What CRC-32 leaves of a PDU that ends with its own CRC-32.
local CRC32_RESIDUE = 0xc704dd7b
-- What is left of a HEC for each flipped bit of a header, without the coset.
local HEC_SYNDROMES = {}
for bit = 0, 39 do
    local byte = 2 ^ (7 - bit % 8)
    local zeros = string.rep("\0", 3 - math.floor(bit / 8))
    HEC_SYNDROMES[bit < 32 and crc8(string.char(byte) .. zeros) or byte] = bit
end

local function raw(range)
    return range:tvb():raw(0, range:len())
end

-- A dissector `name`, shown as `title`, with `fields` and `experts`; `show(range, pinfo, tree)`
-- fills the tree. Packets of which less than `bytes_min` was captured are left as they are.
local function dissector(name, title, bytes_min, fields, experts, show)
    local proto = Proto(name, title)
    proto.fields, proto.experts = fields, experts
    function proto.dissector(tvb, pinfo, tree)
        if tvb:len() < bytes_min then return 0 end
        pinfo.cols.protocol = title
        local subtree = tree:add(proto, tvb())
        show(tvb(), pinfo, subtree, tree)
        return tvb:len()
    end
    return proto
end

local function wrong(name, text)
    return ProtoExpert.new(name, text, expert.group.CHECKSUM, expert.severity.ERROR)
end

local function odd(name, text)
    return ProtoExpert.new(name, text, expert.group.PROTOCOL, expert.severity.WARN)
end

-- Says whether a check code holds: a generated field, and an expert item if not.
local function verdict(tree, field, range, is_good, complaint)
    tree:add(field, range, is_good):set_generated()
    if not is_good then tree:add_proto_expert_info(complaint) end
end

-- Hands bytes to a dissector of Wireshark's.
local function hand_on(name, range, pinfo, tree)
    if range:len() > 0 then Dissector.get(name):call(range:tvb(), pinfo, tree) end
end

---------------------------------------------------------------------------- MSNL messages

local MSNL_KINDS =
    { "connect", "accept", "reject", "close", "closed", "confirm", "probe" }
local MSNL_REASONS = {
    [0] = "normal", "no such service", "no resources", "restarted", "timed out", "undecided",
}
local msnl_fields = {
    magic = ProtoField.uint16("barewire.msnl.magic", "Magic", base.HEX),
    version = ProtoField.uint8("barewire.msnl.version", "Version"),
    kind = ProtoField.uint8("barewire.msnl.kind", "Kind", base.DEC, MSNL_KINDS),
    source = ProtoField.uint16("barewire.msnl.source", "Source"),
    destination = ProtoField.uint16("barewire.msnl.destination", "Destination"),
    source_ref = ProtoField.uint32("barewire.msnl.source_ref", "Source reference"),
    destination_ref = ProtoField.uint32("barewire.msnl.destination_ref", "Destination reference"),
    vci = ProtoField.uint16("barewire.msnl.vci", "VCI"),
    channel = ProtoField.uint8("barewire.msnl.channel", "Channel"),
    reason = ProtoField.uint8("barewire.msnl.reason", "Reason", base.DEC, MSNL_REASONS),
    service = ProtoField.uint64("barewire.msnl.service", "Service", base.HEX),
    checksum = ProtoField.uint16("barewire.msnl.checksum", "Checksum", base.HEX),
    checksum_ok = ProtoField.bool("barewire.msnl.checksum_ok", "Checksum correct"),
}
local msnl_experts = { checksum = wrong("barewire.msnl.bad_checksum", "Checksum does not match") }
local MSNL_BYTES = 32
-- Where the fields stand, in order: name, first byte, bytes.
local MSNL_PLACES = {
    { "magic", 0, 2 }, { "version", 2, 1 }, { "kind", 3, 1 }, { "source", 4, 2 },
    { "destination", 6, 2 }, { "source_ref", 8, 4 }, { "destination_ref", 12, 4 },
    { "vci", 16, 2 }, { "channel", 18, 1 }, { "reason", 19, 1 }, { "service", 20, 8 },
    { "checksum", 30, 2 },
}

-- The Internet checksum of all words, the one among them included, is 0xffff.
local function sums_to_ones(range)
    local sum = 0
    for at = 0, range:len() - 2, 2 do sum = sum + range(at, 2):uint() end
    while sum > 0xffff do sum = sum % 0x10000 + math.floor(sum / 0x10000) end
    return sum == 0xffff
end

-- Shows a message; gives it as text.
local function show_msnl(range, tree)
    for _, place in ipairs(MSNL_PLACES) do
        tree:add(msnl_fields[place[1]], range(place[2], place[3]))
    end
    local is_good = sums_to_ones(range)
    verdict(tree, msnl_fields.checksum_ok, range(30, 2), is_good, msnl_experts.checksum)
    return string.format("%s from %d to %d, reference %d%s",
        MSNL_KINDS[range(3, 1):uint()] or "unknown", range(4, 2):uint(), range(6, 2):uint(),
        range(8, 4):uint(), is_good and "" or " [bad checksum]")
end

local msnl = dissector("barewire.msnl", "MSNL", MSNL_BYTES, msnl_fields, msnl_experts,
    function(range, pinfo, tree)
        pinfo.cols.info = show_msnl(range(0, MSNL_BYTES), tree)
    end)

------------------------------------------------------------------------------ MSDL cells

local msdl_fields = {
    vci = ProtoField.uint16("barewire.msdl.vci", "VCI"),
    sequence = ProtoField.uint8("barewire.msdl.sequence", "Sequence"),
    rid = ProtoField.uint8("barewire.msdl.rid", "RID", base.DEC, nil, 0xfc),
    part = ProtoField.bool("barewire.msdl.part", "Part", 8, nil, 0x02),
    start = ProtoField.bool("barewire.msdl.start", "Start", 8, nil, 0x01),
    body = ProtoField.bytes("barewire.msdl.body", "Body"),
    valid = ProtoField.uint8("barewire.msdl.valid", "Valid bytes"),
}
local msdl_experts = {
    valid = odd("barewire.msdl.bad_valid", "More valid bytes than a part-full body has: 31"),
    sequence = odd("barewire.msdl.bad_sequence", "Sequence 0: the last cell of a block has 1"),
}
local MSDL_BYTES = 36
-- Where MSNL's messages go, each in a block of one cell.
local SIGNALLING_VCI = 5

-- Shows a cell; gives it as text.
local function show_msdl(range, tree)
    tree:add(msdl_fields.vci, range(0, 2))
    tree:add(msdl_fields.sequence, range(2, 1))
    tree:add(msdl_fields.rid, range(3, 1))
    tree:add(msdl_fields.part, range(3, 1))
    tree:add(msdl_fields.start, range(3, 1))
    local sequence, is_part = range(2, 1):uint(), range(3, 1):bitfield(6, 1) == 1
    local valid = is_part and range(35, 1):uint() or 32
    local item = tree:add(msdl_fields.valid, range(35, 1), valid)
    if not is_part then item:set_generated() end
    if valid > 31 and is_part then item:add_proto_expert_info(msdl_experts.valid) end
    if sequence == 0 then tree:add_proto_expert_info(msdl_experts.sequence) end
    tree:add(msdl_fields.body, range(4, math.min(valid, 32)))
    local vci = range(0, 2):uint()
    local text = string.format("VCI %d, sequence %d, RID %d", vci, sequence,
        range(3, 1):bitfield(0, 6))
    tree:append_text(": " .. text)
    if vci == SIGNALLING_VCI and valid == MSNL_BYTES then
        local message = range(4, MSNL_BYTES)
        local subtree = tree:add(msnl, message)
        text = show_msnl(message, subtree)
        subtree:append_text(": " .. text)
    end
    return text
end

dissector("barewire.msdl", "MSDL", MSDL_BYTES, msdl_fields, msdl_experts,
    function(range, pinfo, tree)
        pinfo.cols.info = show_msdl(range(0, MSDL_BYTES), tree)
    end)

------------------------------------------------------------------------------ CBN frames

local cbn_fields = {
    header = ProtoField.uint8("barewire.cbn.header", "Header", base.HEX),
    slot = ProtoField.uint8("barewire.cbn.slot", "Slot"),
    full = ProtoField.bool("barewire.cbn.full", "Full"),
    monitor = ProtoField.bool("barewire.cbn.monitor", "Monitor passed"),
    type = ProtoField.bool("barewire.cbn.type", "Type"),
    response = ProtoField.bool("barewire.cbn.response", "Response"),
    qualifier = ProtoField.bool("barewire.cbn.qualifier", "Qualifier"),
    crc = ProtoField.uint16("barewire.cbn.crc", "CRC-12", base.HEX),
    crc_ok = ProtoField.bool("barewire.cbn.crc_ok", "CRC-12 correct"),
}
local cbn_experts = { crc = wrong("barewire.cbn.bad_crc", "CRC-12 does not match") }
local CBN_BYTES, CBN_SLOTS = 149, 4

dissector("barewire.cbn", "CBN", CBN_BYTES, cbn_fields, cbn_experts,
    function(range, pinfo, tree)
        tree:add(cbn_fields.header, range(0, 1), range:bitfield(0, 4))
        local full = {}
        for slot = 0, CBN_SLOTS - 1 do
            -- A bit of the slot, in the group of four that begins at bit `first`.
            local function flag(first)
                return range(math.floor(first / 8), 1):bitfield(first % 8 + slot, 1) == 1
            end
            local cell = range(2 + slot * MSDL_BYTES, MSDL_BYTES)
            local subtree = tree:add(cbn_fields.slot, cell, slot)
            subtree:add(cbn_fields.full, range(0, 1), flag(4))
            subtree:add(cbn_fields.monitor, range(1, 1), flag(8))
            subtree:add(cbn_fields.type, range(1, 1), flag(12))
            subtree:add(cbn_fields.response, range(146, 1), flag(1168))
            subtree:add(cbn_fields.qualifier, range(146, 1), flag(1172))
            if flag(4) then
                show_msdl(cell, subtree)
                table.insert(full, slot)
            end
        end
        -- The check code covers bits 4 to 1175. Zeros in front of them change nothing.
        local bytes = raw(range(0, 147))
        local computed = crc12(string.char(bytes:byte(1) % 16) .. bytes:sub(2))
        local found = range(147, 2):bitfield(0, 12)
        local item = tree:add(cbn_fields.crc, range(147, 2), found)
        item:append_text(string.format(" (the bits give 0x%03x)", computed))
        verdict(tree, cbn_fields.crc_ok, range(147, 2), found == computed, cbn_experts.crc)
        local text = #full == 0 and "all slots empty" or "full: " .. table.concat(full, ", ")
        pinfo.cols.info = text .. (found == computed and "" or " [bad CRC-12]")
    end)

------------------------------------------------------------------------------- ATM cells

local cell_fields = {
    gfc = ProtoField.uint8("barewire.cell.gfc", "GFC", base.DEC, nil, 0xf0),
    vpi = ProtoField.uint8("barewire.cell.vpi", "VPI"),
    vci = ProtoField.uint16("barewire.cell.vci", "VCI"),
    pt = ProtoField.uint8("barewire.cell.pt", "Payload type", base.DEC, nil, 0x0e),
    clp = ProtoField.bool("barewire.cell.clp", "Loss priority", 8, nil, 0x01),
    hec = ProtoField.uint8("barewire.cell.hec", "HEC", base.HEX),
    hec_ok = ProtoField.bool("barewire.cell.hec_ok", "HEC correct"),
    hec_bit = ProtoField.uint8("barewire.cell.hec_bit", "Bit that the HEC would correct"),
    oam_ok = ProtoField.bool("barewire.cell.oam_ok", "OAM CRC-10 correct"),
}
local cell_experts = {
    hec = wrong("barewire.cell.bad_hec", "HEC does not match"),
    oam = wrong("barewire.cell.bad_oam", "CRC-10 of the OAM cell does not match"),
}
local HEADER_BYTES, PAYLOAD_BYTES, CELL_BYTES = 5, 48, 53

-- Shows the five bytes of a cell header; gives VPI, VCI and payload type.
local function show_cell_header(range, tree)
    local vpi, vci = range:bitfield(4, 8), range:bitfield(12, 16)
    local pt = range:bitfield(28, 3)
    tree:add(cell_fields.gfc, range(0, 1))
    tree:add(cell_fields.vpi, range(0, 2), vpi)
    tree:add(cell_fields.vci, range(1, 3), vci)
    tree:add(cell_fields.pt, range(3, 1))
    tree:add(cell_fields.clp, range(3, 1))
    tree:add(cell_fields.hec, range(4, 1))
    local bytes = raw(range(0, HEADER_BYTES))
    local left = xor(xor(crc8(bytes:sub(1, 4)), HEC_COSET), bytes:byte(5))
    verdict(tree, cell_fields.hec_ok, range(4, 1), left == 0, cell_experts.hec)
    local bit = HEC_SYNDROMES[left]
    if left ~= 0 and bit then
        tree:add(cell_fields.hec_bit, range(math.floor(bit / 8), 1), bit):set_generated()
    end
    return vpi, vci, pt
end

local function is_oam(vci, pt)
    return pt == 4 or pt == 5 or ((vci == 3 or vci == 4) and pt % 2 == 0 and pt < 4)
end

dissector("barewire.cell", "ATM cell", CELL_BYTES, cell_fields, cell_experts,
    function(range, pinfo, tree, root)
        local vpi, vci, pt = show_cell_header(range, tree)
        local payload = range(HEADER_BYTES, PAYLOAD_BYTES)
        pinfo.cols.info = string.format("VPI %d, VCI %d, PT %d", vpi, vci, pt)
        if is_oam(vci, pt) then
            local is_good = crc10(raw(payload)) == 0
            verdict(tree, cell_fields.oam_ok, range(51, 2), is_good, cell_experts.oam)
        end
        hand_on("data", payload, pinfo, root)
    end)

------------------------------------------------------------------------------ AAL3/4 cells

local SEGMENTS = { [0] = "COM", "EOM", "BOM", "SSM" }
local aal34_fields = {
    st = ProtoField.uint16("barewire.aal34.st", "Segment type", base.DEC, SEGMENTS, 0xc000),
    sn = ProtoField.uint16("barewire.aal34.sn", "Sequence number", base.DEC, nil, 0x3c00),
    mid = ProtoField.uint16("barewire.aal34.mid", "MID", base.DEC, nil, 0x03ff),
    li = ProtoField.uint16("barewire.aal34.li", "Length", base.DEC, nil, 0xfc00),
    payload = ProtoField.bytes("barewire.aal34.payload", "Payload"),
    crc = ProtoField.uint16("barewire.aal34.crc", "CRC-10", base.HEX, nil, 0x03ff),
    crc_ok = ProtoField.bool("barewire.aal34.crc_ok", "CRC-10 correct"),
    li_ok = ProtoField.bool("barewire.aal34.li_ok", "Length allowed"),
}
local aal34_experts = {
    crc = wrong("barewire.aal34.bad_crc", "CRC-10 does not match"),
    li = odd("barewire.aal34.bad_li", "Length not allowed in a segment of this type"),
}
local ABORT = 63

local function length_allowed(segment, length)
    if segment == "BOM" or segment == "COM" then return length == 44 end
    if segment == "EOM" and length == ABORT then return true end
    return length <= 44 and length >= (segment == "EOM" and 4 or 8)
end

dissector("barewire.aal34", "AAL3/4", CELL_BYTES, aal34_fields, aal34_experts,
    function(range, pinfo, tree)
        local vpi, vci = show_cell_header(range, tree)
        local sar = range(HEADER_BYTES, PAYLOAD_BYTES)
        local segment, length = SEGMENTS[sar:bitfield(0, 2)], sar(46, 1):bitfield(0, 6)
        for _, name in ipairs({ "st", "sn", "mid" }) do
            tree:add(aal34_fields[name], sar(0, 2))
        end
        tree:add(aal34_fields.payload, sar(2, 44))
        tree:add(aal34_fields.li, sar(46, 2))
        tree:add(aal34_fields.crc, sar(46, 2))
        local is_good = crc10(raw(sar)) == 0
        verdict(tree, aal34_fields.crc_ok, sar(46, 2), is_good, aal34_experts.crc)
        local is_allowed = length_allowed(segment, length)
        verdict(tree, aal34_fields.li_ok, sar(46, 1), is_allowed, aal34_experts.li)
        pinfo.cols.info = string.format("%s, sequence %d, MID %d, VPI %d, VCI %d%s", segment,
            sar:bitfield(2, 4), sar:bitfield(6, 10), vpi, vci, is_good and "" or " [bad CRC-10]")
    end)

-------------------------------------------------------------------------------- AAL5 PDUs

local aal5_fields = {
    uu = ProtoField.uint8("barewire.aal5.uu", "AAL5 UU"),
    cpi = ProtoField.uint8("barewire.aal5.cpi", "AAL5 CPI"),
    length = ProtoField.uint16("barewire.aal5.length", "AAL5 length"),
    crc = ProtoField.uint32("barewire.aal5.crc", "AAL5 CRC-32", base.HEX),
    crc_ok = ProtoField.bool("barewire.aal5.crc_ok", "AAL5 CRC-32 correct"),
    length_ok = ProtoField.bool("barewire.aal5.length_ok", "AAL5 length correct"),
}
local aal5_experts = {
    crc = wrong("barewire.aal5.bad_crc", "CRC-32 of the AAL5 PDU does not match"),
    length = wrong("barewire.aal5.bad_length", "Length and size of the AAL5 PDU differ"),
}
local TRAILER_BYTES = 8

-- Shows an AAL5 PDU that stands at the end of `range`, and hands its payload on.
local function show_aal5(range, pinfo, tree, root)
    local at = range:len() - TRAILER_BYTES
    local length = range(at + 2, 2):uint()
    tree:add(aal5_fields.uu, range(at, 1))
    tree:add(aal5_fields.cpi, range(at + 1, 1))
    tree:add(aal5_fields.length, range(at + 2, 2))
    tree:add(aal5_fields.crc, range(at + 4, 4))
    local is_good = crc32(raw(range)) == CRC32_RESIDUE
    verdict(tree, aal5_fields.crc_ok, range(at + 4, 4), is_good, aal5_experts.crc)
    local fits = length <= at and at - length <= 47
    verdict(tree, aal5_fields.length_ok, range(at + 2, 2), fits, aal5_experts.length)
    if not fits then return hand_on("data", range, pinfo, root) end
    if length == 0 then return end
    local payload = range(0, length)
    local is_llc = length >= 3 and payload(0, 3):uint() == 0xaaaa03
    hand_on(is_llc and "llc" or "data", payload, pinfo, root)
end

dissector("barewire.aal5", "AAL5", HEADER_BYTES + TRAILER_BYTES, aal5_fields, aal5_experts,
    function(range, pinfo, tree, root)
        local vpi, vci = show_cell_header(range, tree)
        pinfo.cols.info = string.format("VPI %d, VCI %d", vpi, vci)
        show_aal5(range(HEADER_BYTES), pinfo, tree, root)
    end)

------------------------------------------------------------------------------ Jetstream

local ADDRESSING = { [0] = "RID", "VC", "control", "reserved" }
local CONTROL = { [0] = "none", "RING_UP", "token" }
local jetstream_fields = {
    crc_present = ProtoField.bool("barewire.jetstream.crc", "CRC", 8, nil, 0x80),
    monitor = ProtoField.bool("barewire.jetstream.monitor", "Monitor", 8, nil, 0x40),
    addr_type = ProtoField.uint8("barewire.jetstream.addr_type", "Addressing", base.DEC,
        ADDRESSING, 0x30),
    control = ProtoField.uint8("barewire.jetstream.control", "Control", base.DEC, CONTROL, 0x0f),
    dst = ProtoField.uint8("barewire.jetstream.dst_rid", "Destination RID", base.DEC, nil, 0x0f),
    src = ProtoField.uint8("barewire.jetstream.src_rid", "Source RID", base.DEC, nil, 0x0f),
    hops = ProtoField.uint8("barewire.jetstream.hop_count", "Hop count"),
    complement = ProtoField.uint32("barewire.jetstream.complement", "Complement", base.HEX),
    complement_ok = ProtoField.bool("barewire.jetstream.complement_ok", "Complement correct"),
}
local jetstream_experts = {
    complement = wrong("barewire.jetstream.bad_complement", "Control frame is damaged"),
}
local JETSTREAM_BYTES, OVERHEAD_BYTES = 3, 8

dissector("barewire.jetstream", "Jetstream", OVERHEAD_BYTES, jetstream_fields,
    jetstream_experts, function(range, pinfo, tree, root)
        for _, name in ipairs({ "crc_present", "monitor", "addr_type", "control" }) do
            tree:add(jetstream_fields[name], range(0, 1))
        end
        tree:add(jetstream_fields.dst, range(1, 1))
        tree:add(jetstream_fields.src, range(2, 1))
        local source = range(2, 1):bitfield(4, 4)
        if ADDRESSING[range:bitfield(2, 2)] == "control" then
            tree:add(jetstream_fields.hops, range(3, 1))
            tree:add(jetstream_fields.complement, range(4, 4))
            local is_good = range(0, 4):uint() + range(4, 4):uint() == 0xffffffff
            verdict(tree, jetstream_fields.complement_ok, range(4, 4), is_good,
                jetstream_experts.complement)
            local kind = CONTROL[range:bitfield(4, 4)] or "reserved control frame"
            pinfo.cols.info = string.format("%s from %d, hop count %d", kind, source,
                range(3, 1):uint())
            return
        end
        local vpi, vci = show_cell_header(range(JETSTREAM_BYTES, HEADER_BYTES), tree)
        pinfo.cols.info = string.format("from %d, VPI %d, VCI %d", source, vpi, vci)
        if range:len() == OVERHEAD_BYTES then return end
        local pdu = range(OVERHEAD_BYTES)
        if range:bitfield(0, 1) == 1 and pdu:len() >= TRAILER_BYTES then
            show_aal5(pdu, pinfo, tree, root)
        else
            hand_on("data", pdu, pinfo, root)
        end
    end)

----------------------------------------------------------- messages of the live network

-- These name Wireshark's own "data" as their dissector, so that they are shown without this
-- file too; with it a line says who sent them to whom.
local message = Proto("barewire", "Barewire message")
local from = ProtoField.uint32("barewire.from", "From process")
local to = ProtoField.uint32("barewire.to", "To process")
message.fields = { from, to }

local column = Field.new("exported_pdu.col_proto_str")
local source, destination = Field.new("exported_pdu.src_port"), Field.new("exported_pdu.dst_port")

function message.dissector(tvb, _, tree)
    local name, from_pid, to_pid = column(), source(), destination()
    if not (name and from_pid and to_pid and name.display == "Barewire") then return end
    local subtree = tree:add(message, tvb())
    subtree:add(from, from_pid.range, from_pid.value)
    subtree:add(to, to_pid.range, to_pid.value)
    subtree:append_text(string.format(" from %d to %d", from_pid.value, to_pid.value))
end

register_postdissector(message)
