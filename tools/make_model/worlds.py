"""The closed worlds the shipped model knows, and the slots it can be told about.

Pure data. A form is a phrase in lower case, {x} the thing asked about and {y} the value;
wordings.py puts forms into sentences. `noun` forms fit "tell me ...", `direct` forms are questions,
`indirect` forms fit "do you know ...".
"""

CAPITALS = """France Paris, Spain Madrid, Italy Rome, Germany Berlin, Austria Vienna, Poland Warsaw,
Portugal Lisbon, Greece Athens, Norway Oslo, Sweden Stockholm, Finland Helsinki, Denmark Copenhagen,
Ireland Dublin, England London, Scotland Edinburgh, Russia Moscow, Ukraine Kyiv, Hungary Budapest,
Romania Bucharest, Bulgaria Sofia, Croatia Zagreb, Serbia Belgrade, Turkey Ankara, Egypt Cairo,
Kenya Nairobi, Japan Tokyo, China Beijing, India Delhi, Iran Tehran, Iraq Baghdad, Cuba Havana,
Peru Lima, Chile Santiago, Canada Ottawa, Thailand Bangkok, Vietnam Hanoi, Nepal Kathmandu,
Belgium Brussels, Iceland Reykjavik, Morocco Rabat"""
OPPOSITES = """hot cold, big small, up down, left right, fast slow, young old, happy sad,
open closed, day night, light dark, wet dry, hard soft, high low, full empty, early late, rich poor,
strong weak, loud quiet, black white, good bad, long short, thick thin, clean dirty, near far,
inside outside, always never, first last, true false, sweet sour, heavy light, wide narrow,
deep shallow, win lose, buy sell, push pull, start stop, give take, love hate, north south,
east west"""
COLOURS_OF = """grass green, snow white, coal black, blood red, chocolate brown, a lemon yellow,
a tomato red, a carrot orange, milk white, a frog green, a pig pink, an elephant grey, the sea blue,
the sun yellow, a plum purple, a leaf green, a strawberry red, a crow black, a swan white,
a banana yellow, the sky blue, a cherry red"""
SOUNDS = """cow moo, dog woof, cat meow, duck quack, sheep baa, pig oink, lion roar, owl hoot,
mouse squeak, snake hiss, horse neigh, bee buzz, frog croak, rooster cockadoodle, wolf howl"""
LEGS = """dog four, cat four, spider eight, bird two, horse four, ant six, fish no, snake no,
cow four, person two, bee six, chicken two, table four, beetle six,
sheep four, duck two, octopus eight"""
BABIES = """dog puppy, cat kitten, cow calf, horse foal, sheep lamb, pig piglet, duck duckling,
hen chick, lion cub, goat kid, deer fawn, goose gosling, kangaroo joey, frog tadpole, swan cygnet"""
PLURALS = """mouse mice, child children, foot feet, tooth teeth, man men, woman women, goose geese,
ox oxen, leaf leaves, knife knives, wolf wolves, person people, dog dogs, box boxes, baby babies,
city cities, tree trees, sheep sheep, house houses, bus buses"""
HOMES = """bee hive, bird nest, dog kennel, horse stable, spider web, lion den, fox den, pig sty,
king palace, ant anthill, fish sea, rabbit burrow, bear cave, monk monastery, soldier barracks"""
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = ("January February March April May June July August September October November "
          "December").split()


def pairs(text):
    rows = [row.strip().rsplit(" ", 1) for row in text.replace("\n", " ").split(",")]
    return [(x, y) for x, y in rows]


def neighbours(cycle, step):
    return [(x, cycle[(i + step) % len(cycle)]) for i, x in enumerate(cycle)]


def sums(sign):
    return [(a, b) for a in range(10) for b in range(10) if sign > 0 or a >= b]


# name: pairs, answer, noun, direct, indirect
KNOWLEDGE = {
    "capital": (pairs(CAPITALS), "The capital of {x} is {y}.",
                ["the capital of {x}", "the capital city of {x}", "{x}'s capital",
                 "the name of the capital of {x}"],
                ["what is the capital of {x}", "which city is the capital of {x}",
                 "what city is {x}'s capital", "how is the capital of {x} called"],
                ["what the capital of {x} is", "which city is the capital of {x}",
                 "what the capital of {x} is called"]),
    "opposite": (pairs(OPPOSITES), "The opposite of {x} is {y}.",
                 ["the opposite of {x}", "the word that means the opposite of {x}",
                  "the antonym of {x}"],
                 ["what is the opposite of {x}", "which word is the opposite of {x}",
                  "what word means the opposite of {x}", "what is the contrary of {x}"],
                 ["what the opposite of {x} is", "which word is the opposite of {x}"]),
    "colour_of": (pairs(COLOURS_OF), "The colour of {x} is {y}.",
                  ["the colour of {x}", "the colour that {x} has"],
                  ["what colour is {x}", "which colour does {x} have", "what is the colour of {x}",
                   "what colour does {x} have"],
                  ["what colour {x} is", "which colour {x} has"]),
    "sound": (pairs(SOUNDS), "A {x} says {y}.",
              ["the sound of a {x}", "the noise of a {x}", "the sound a {x} makes"],
              ["what does a {x} say", "what sound does a {x} make", "what noise does a {x} make",
               "how does a {x} sound"],
              ["what a {x} says", "what sound a {x} makes", "how a {x} sounds"]),
    "legs": (pairs(LEGS), "A {x} has {y} legs.",
             ["the number of legs of a {x}", "the number of legs a {x} has"],
             ["how many legs does a {x} have", "how many legs has a {x}",
              "on how many legs does a {x} stand", "what number of legs does a {x} have"],
             ["how many legs a {x} has", "on how many legs a {x} stands"]),
    "baby": (pairs(BABIES), "A young {x} is called a {y}.",
             ["the name for a young {x}", "the word for a baby {x}", "the name of a {x}'s young"],
             ["what is a young {x} called", "what is a baby {x} called",
              "how do you call a young {x}", "what do we call a baby {x}"],
             ["what a young {x} is called", "what a baby {x} is called",
              "how to call a young {x}"]),
    "plural": (pairs(PLURALS), "The plural of {x} is {y}.",
               ["the plural of {x}", "the plural form of {x}"],
               ["what is the plural of {x}", "how do you write the plural of {x}",
                "what is the plural form of {x}"],
               ["what the plural of {x} is", "how to write the plural of {x}"]),
    "home": (pairs(HOMES), "The home of a {x} is the {y}.",
             ["the home of a {x}", "the place where a {x} lives"],
             ["where does a {x} live", "what is the home of a {x}", "in what does a {x} live"],
             ["where a {x} lives", "what the home of a {x} is"]),
    "day_after": (neighbours(DAYS, 1), "The day after {x} is {y}.",
                  ["the day after {x}", "the day that follows {x}"],
                  ["what day comes after {x}", "which day follows {x}",
                   "what is the day after {x}"],
                  ["what day comes after {x}", "which day follows {x}"]),
    "day_before": (neighbours(DAYS, -1), "The day before {x} is {y}.",
                   ["the day before {x}"],
                   ["what day comes before {x}", "which day is before {x}",
                    "what is the day before {x}"],
                   ["what day comes before {x}", "which day is before {x}"]),
    "month_after": (neighbours(MONTHS, 1), "The month after {x} is {y}.",
                    ["the month after {x}", "the month that follows {x}"],
                    ["what month comes after {x}", "which month follows {x}",
                     "what is the month after {x}"],
                    ["what month comes after {x}", "which month follows {x}"]),
    "month_before": (neighbours(MONTHS, -1), "The month before {x} is {y}.",
                     ["the month before {x}"],
                     ["what month comes before {x}", "which month is before {x}",
                      "what is the month before {x}"],
                     ["what month comes before {x}", "which month is before {x}"]),
    "plus": ([("%d plus %d" % (a, b), str(a + b)) for a, b in sums(1)], "{x} is {y}.",
             ["{x}", "the result of {x}", "the sum {x}"],
             ["what is {x}", "how much is {x}", "what does {x} make", "what is the result of {x}"],
             ["what {x} is", "how much {x} is"]),
    "minus": ([("%d minus %d" % (a, b), str(a - b)) for a, b in sums(-1)], "{x} is {y}.",
              ["{x}", "the result of {x}"],
              ["what is {x}", "how much is {x}", "what does {x} make", "what is the result of {x}"],
              ["what {x} is", "how much {x} is"]),
}

PEOPLE = """Anna Tom Maria Peter Lucy Paul Emma Jack Sara David Julia Mark Nina Leo Alice Ben Clara
Daniel Eva Frank Grace Henry Ida James Kate Louis Mia Noah Olga Oscar Rosa Simon Tina Victor Wendy
Adam Bella Carlos Dora Eric Fiona George Hannah Ivan Jane Karl Laura Max Nora Otto Paula Robert
Sofie Theo Ursula Vera Walter Yara Zoe Alan Betty Chris Diana Edward""".split()
PETS = """Rex Bella Luna Max Milo Coco Rocky Daisy Buddy Charlie Lucky Molly Oscar Ruby Shadow Simba
Spot Teddy Tiger Toby Bruno Fluffy Ginger Honey Jasper Kiwi Lola Mango Nala Oreo Pepper Pixel Rusty
Smokey Snowy Sparky Sunny Waffles Ziggy Biscuit Cookie Dusty Felix Hazel Maple Nero Olive Pumpkin
Socks Whiskers Bubbles Nemo Comet Domino Echo Fudge""".split()
CITIES = """Paris Madrid Rome Berlin Vienna Warsaw Lisbon Athens Oslo Stockholm Helsinki Dublin
London Moscow Budapest Sofia Cairo Nairobi Tokyo Beijing Delhi Havana Lima Ottawa Bangkok Brussels
Boston Chicago Dallas Denver Geneva Hamburg Leeds Lyon Milan Munich Naples Oxford Porto Prague
Seattle Sydney Turin Venice York Zurich Bristol Cologne Florence Miami""".split()
COLOURS = """red blue green yellow black white brown orange pink purple grey silver golden
turquoise violet""".split()
JOBS = """baker teacher doctor farmer painter pilot cook nurse driver singer writer gardener lawyer
carpenter plumber dentist judge sailor tailor waiter builder dancer fisherman hairdresser librarian
mechanic miner musician photographer postman priest programmer scientist shepherd soldier student
translator butcher florist""".split()
FOODS = """pizza pasta rice soup bread cheese apples salad pancakes sushi curry noodles potatoes
chocolate cake tomatoes beans chicken fish strawberries bananas honey mushrooms pears
cherries eggs carrots dumplings lasagne waffles grapes""".split()
DRINKS = "tea coffee milk water juice lemonade cocoa cider beer wine".split()
ANIMALS = """dog cat horse lion tiger bear wolf fox rabbit mouse owl eagle duck swan goose frog
snake elephant giraffe monkey penguin dolphin whale turtle hamster sheep goat cow pig bee""".split()
SPORTS = """football tennis chess hockey golf rugby basketball swimming running cycling skiing
rowing boxing climbing judo volleyball badminton fencing""".split()
INSTRUMENTS = """piano violin guitar flute drums cello trumpet harp organ clarinet saxophone
accordion""".split()
LANGUAGES = """French Spanish Italian German English Polish Greek Russian Arabic Japanese Chinese
Hindi Dutch Swedish Turkish Portuguese Danish Finnish""".split()
PLACES = """kitchen garden garage bedroom bathroom cellar attic office hall drawer car cupboard
basket box bag shed""".split()
NUMBERS = [str(n) for n in range(2, 100)]
PET_KINDS = "dog cat bird fish horse rabbit hamster parrot turtle pony".split()
RELATIVES = """sister brother mother father friend teacher neighbour boss cousin uncle aunt
doctor son daughter""".split()
THINGS = "car house bike coat hat bag door boat sofa umbrella".split()
LOST = "keys glasses books shoes phone wallet passport gloves umbrella ticket".split()

# A slot the user can fill. name: (kinds of {x} or None, values of {y} as a list's name,
#   answer, unknown, statements, noun, direct, indirect). "my"/"your"/"I"/"you" are written out.
PERSONAL = {
    "pet": (PET_KINDS, "pet_names", "Your {x} is called {y}.",
            "I do not know the name of your {x}.",
            ["my {x} is called {y}", "the name of my {x} is {y}", "I have a {x} called {y}",
             "my {x}'s name is {y}", "I named my {x} {y}"],
            ["the name of my {x}", "my {x}'s name", "the name I gave my {x}"],
            ["what is the name of my {x}", "what is my {x} called", "what is my {x}'s name",
             "how is my {x} called", "what did I name my {x}", "which name does my {x} have"],
            ["what my {x} is called", "how my {x} is called", "what the name of my {x} is",
             "which name I gave my {x}"]),
    "relative": (RELATIVES, "people", "Your {x} is called {y}.",
                 "I do not know the name of your {x}.",
                 ["my {x} is called {y}", "the name of my {x} is {y}", "my {x}'s name is {y}",
                  "I have a {x} called {y}"],
                 ["the name of my {x}", "my {x}'s name"],
                 ["what is the name of my {x}", "what is my {x} called", "what is my {x}'s name",
                  "how is my {x} called", "which name does my {x} have"],
                 ["what my {x} is called", "how my {x} is called", "what the name of my {x} is"]),
    "name": (None, "people", "Your name is {y}.", "I do not know your name.",
             ["my name is {y}", "I am called {y}", "people call me {y}", "I am {y}"],
             ["my name", "my own name"],
             ["what is my name", "what am I called", "who am I", "how am I called",
              "what do people call me"],
             ["what my name is", "who I am", "what I am called", "how I am called"]),
    "city": (None, "cities", "You live in {y}.", "I do not know where you live.",
             ["I live in {y}", "my home is in {y}", "my city is {y}", "my flat is in {y}"],
             ["my city", "the city I live in", "the name of my city", "the place where I live"],
             ["where do I live", "in which city do I live", "what is my city",
              "what city do I live in", "where is my home"],
             ["where I live", "in which city I live", "what city I live in", "where my home is"]),
    "job": (None, "jobs", "You work as a {y}.", "I do not know what your job is.",
            ["I work as a {y}", "my job is {y}", "I am a {y}", "I am a {y} by profession"],
            ["my job", "my profession", "the work I do"],
            ["what is my job", "what do I work as", "what is my profession", "what work do I do",
             "which job do I have"],
            ["what my job is", "what I work as", "what work I do", "what my profession is"]),
    "colour": (None, "colours", "Your favourite colour is {y}.",
               "I do not know your favourite colour.",
               ["my favourite colour is {y}", "the colour I like best is {y}",
                "I like {y} more than any other colour", "I love the colour {y}"],
               ["my favourite colour", "the colour I like best", "the colour I love"],
               ["what is my favourite colour", "which colour do I like best",
                "what colour do I love", "what colour do I like most"],
               ["what my favourite colour is", "which colour I like best", "what colour I love"]),
    "food": (None, "foods", "Your favourite food is {y}.", "I do not know your favourite food.",
             ["my favourite food is {y}", "the food I like best is {y}", "I love to eat {y}"],
             ["my favourite food", "the food I like best", "the food I love"],
             ["what is my favourite food", "which food do I like best", "what do I love to eat",
              "what food do I like most", "what do I like to eat"],
             ["what my favourite food is", "which food I like best", "what I love to eat"]),
    "drink": (None, "drinks", "Your favourite drink is {y}.", "I do not know your favourite drink.",
              ["my favourite drink is {y}", "the drink I like best is {y}", "I love to drink {y}"],
              ["my favourite drink", "the drink I like best"],
              ["what is my favourite drink", "which drink do I like best",
               "what do I love to drink", "what do I like to drink"],
              ["what my favourite drink is", "which drink I like best", "what I love to drink"]),
    "animal": (None, "animals", "Your favourite animal is the {y}.",
               "I do not know your favourite animal.",
               ["my favourite animal is the {y}", "the animal I like best is the {y}"],
               ["my favourite animal", "the animal I like best"],
               ["what is my favourite animal", "which animal do I like best",
                "what animal do I like most"],
               ["what my favourite animal is", "which animal I like best"]),
    "number": (None, "numbers", "Your lucky number is {y}.", "I do not know your lucky number.",
               ["my lucky number is {y}", "the number that brings me luck is {y}"],
               ["my lucky number", "the number that brings me luck"],
               ["what is my lucky number", "which number brings me luck"],
               ["what my lucky number is", "which number brings me luck"]),
    "age": (None, "numbers", "You are {y} years old.", "I do not know how old you are.",
            ["I am {y} years old", "my age is {y}"],
            ["my age"],
            ["how old am I", "what is my age", "how many years old am I"],
            ["how old I am", "what my age is"]),
    "month": (None, "months", "You were born in {y}.", "I do not know when you were born.",
              ["I was born in {y}", "my birthday is in {y}"],
              ["the month of my birth", "the month of my birthday"],
              ["when was I born", "in which month was I born", "when is my birthday",
               "in which month is my birthday"],
              ["when I was born", "when my birthday is", "in which month I was born"]),
    "sport": (None, "sports", "Your sport is {y}.", "I do not know your sport.",
              ["my sport is {y}", "the sport I do is {y}"],
              ["my sport", "the sport I do"],
              ["what is my sport", "which sport do I do", "what sport do I do"],
              ["what my sport is", "which sport I do"]),
    "instrument": (None, "instruments", "You play the {y}.",
                   "I do not know which instrument you play.",
                   ["I play the {y}", "my instrument is the {y}"],
                   ["my instrument", "the instrument I play"],
                   ["which instrument do I play", "what instrument do I play",
                    "what is my instrument"],
                   ["which instrument I play", "what my instrument is"]),
    "language": (None, "languages", "You speak {y}.", "I do not know which language you speak.",
                 ["I speak {y}", "my language is {y}", "my mother tongue is {y}"],
                 ["my language", "the language I speak", "my mother tongue"],
                 ["which language do I speak", "what language do I speak", "what is my language",
                  "what is my mother tongue"],
                 ["which language I speak", "what my language is"]),
    "thing_colour": (THINGS, "colours", "Your {x} is {y}.",
                     "I do not know the colour of your {x}.",
                     ["my {x} is {y}", "the colour of my {x} is {y}", "I have a {y} {x}"],
                     ["the colour of my {x}", "my {x}'s colour"],
                     ["what colour is my {x}", "what is the colour of my {x}",
                      "which colour does my {x} have"],
                     ["what colour my {x} is", "which colour my {x} has"]),
    "lost": (LOST, "places", "The place of your {x} is the {y}.",
             "I do not know the place of your {x}.",
             ["I put my {x} in the {y}", "I keep my {x} in the {y}", "I left my {x} in the {y}"],
             ["the place of my {x}", "the place where I put my {x}"],
             ["where did I put my {x}", "where do I keep my {x}", "where did I leave my {x}",
              "where can I find my {x}"],
             ["where I put my {x}", "where I keep my {x}", "where I left my {x}"]),
    "code": (None, "codes", "The code of your door is {y}.", "I do not know the code of your door.",
             ["the code of my door is {y}", "my door code is {y}"],
             ["the code of my door", "my door code"],
             ["what is the code of my door", "what is my door code", "which code opens my door"],
             ["what the code of my door is", "which code opens my door"]),
}

# Facts about other people, {x} is a person's name.
THIRD = {
    "their_city": ("cities", "{x} lives in {y}.", "I do not know where {x} lives.",
                   ["{x} lives in {y}", "the home of {x} is in {y}"],
                   ["the city {x} lives in", "{x}'s city"],
                   ["where does {x} live", "in which city does {x} live", "what is {x}'s city"],
                   ["where {x} lives", "in which city {x} lives"]),
    "their_job": ("jobs", "{x} works as a {y}.", "I do not know what {x} works as.",
                  ["{x} works as a {y}", "{x} is a {y}", "the job of {x} is {y}"],
                  ["the job of {x}", "{x}'s job", "{x}'s profession"],
                  ["what is {x}'s job", "what does {x} work as", "what work does {x} do",
                   "what is the job of {x}"],
                  ["what {x}'s job is", "what {x} works as", "what work {x} does"]),
    "their_colour": ("colours", "{x} likes {y} best.", "I do not know which colour {x} likes best.",
                     ["{x} likes {y} best", "the favourite colour of {x} is {y}"],
                     ["{x}'s favourite colour", "the favourite colour of {x}"],
                     ["what is {x}'s favourite colour", "which colour does {x} like best"],
                     ["which colour {x} likes best", "what {x}'s favourite colour is"]),
    "their_pet": ("pet_names", "{x}'s dog is called {y}.",
                  "I do not know the name of {x}'s dog.",
                  ["{x} has a dog called {y}", "{x}'s dog is called {y}"],
                  ["the name of {x}'s dog"],
                  ["what is {x}'s dog called", "what is the name of {x}'s dog"],
                  ["what {x}'s dog is called", "what the name of {x}'s dog is"]),
}

# Fixed exchanges: (ways to say it, answer). Greetings are met alone, questions in sentences.
GREETINGS = {
    "hello": (["hello", "hi", "hey", "good morning", "good evening", "hello there", "hi there",
               "good day", "greetings", "hey there", "good afternoon", "hello again"],
              "Hello! How can I help you?"),
    "thanks": (["thank you", "thanks", "thanks a lot", "thank you very much", "many thanks",
                "great, thank you", "that helps, thanks", "thank you so much"],
               "You are welcome."),
    "bye": (["goodbye", "bye", "see you later", "good night", "bye bye", "see you soon",
             "I have to go now", "see you tomorrow"], "Goodbye!"),
}
ABOUT_LUMI = {
    "identity": ("I am lumi, a small language model.", ["your name"],
                 ["who are you", "what are you", "what is your name", "how are you called",
                  "what are you called", "do you have a name"],
                 ["who you are", "what you are", "what your name is", "what you are called"]),
    "feeling": ("I am fine, thank you.", [],
                ["how are you", "how are you today", "how do you feel", "how is it going",
                 "are you well", "how are things", "are you fine"],
                ["how you are", "how you feel"]),
    "ability": ("I can answer small questions, and I can learn.", ["your abilities"],
                ["what can you do", "how can you help me", "what do you know",
                 "what are you good at", "what can I ask you"],
                ["what you can do", "how you can help me", "what you are good at"]),
    "author": ("A small script made me.", ["your maker"],
               ["who made you", "who built you", "who wrote you", "who trained you"],
               ["who made you", "who built you", "who trained you"]),
    "learn": ("Yes, you can teach me.", [],
              ["can you learn", "do you learn", "can you remember things", "can I teach you",
               "are you able to learn"],
              ["whether you can learn", "whether I can teach you"]),
}
ACKNOWLEDGE = "I will remember that."
